/** Forms that survive a log-in and a reload of the page, in this tab alone. */

import { useEffect, useState } from "react";

/** State that is kept in the tab under a key; `forget` removes it, as after a submission. */
export function useDraft<T>(
  key: string,
  initial: T,
): [T, (value: T | ((before: T) => T)) => void, () => void] {
  const name = `penstock-draft-${key}`;
  const [value, setValue] = useState<T>(() => {
    try {
      const text = sessionStorage.getItem(name);
      return text === null ? initial : (JSON.parse(text) as T);
    } catch {
      return initial;
    }
  });
  useEffect(() => {
    try {
      sessionStorage.setItem(name, JSON.stringify(value));
    } catch {
      // Storage may be denied or full: the draft lives as long as the page, then.
    }
  }, [name, value]);
  const forget = () => {
    setValue(initial);
    // The effect writes the initial value once more, which is no draft.
    window.setTimeout(() => sessionStorage.removeItem(name));
  };
  return [value, setValue, forget];
}
