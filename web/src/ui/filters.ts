/** Filters of a list that live in the address, so that a view can be sent to a colleague. */

import { useMemo } from "react";
import { useLocation, useSearch } from "wouter";

/** Returns the filters, a function that changes some, and one that clears all. */
export function useFilters<T extends Record<string, string>>(
  initial: T,
): [T, (part: Partial<T>) => void, () => void] {
  const [path, navigate] = useLocation();
  const search = useSearch();
  const names = Object.keys(initial).join(" ");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the initial values are constants
  const filters = useMemo(() => {
    const query = new URLSearchParams(search);
    const entries = Object.entries(initial).map(([key, value]) => [key, query.get(key) ?? value]);
    return Object.fromEntries(entries) as T;
  }, [search, names]);
  const write = (next: Record<string, string>) => {
    const query = new URLSearchParams(search);
    for (const [key, value] of Object.entries(next)) {
      if (value === initial[key]) {
        query.delete(key);
      } else {
        query.set(key, value);
      }
    }
    const text = query.toString();
    navigate(text === "" ? path : `${path}?${text}`, { replace: true });
  };
  return [filters, (part) => write({ ...filters, ...part }), () => write(initial)];
}
