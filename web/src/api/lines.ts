/** Bodies of lines, which may be long: each line as it arrives. */

import { at } from "../base";
import { ContactError, errorOf } from "./problem";

/**
 * Sends a request, and calls `onLine` for each line of its answer, and `onPart` after each part.
 * Throws `ProblemError`, or `ContactError` if there is no answer.
 */
export async function readLines(
  path: string,
  init: RequestInit,
  onLine: (line: string) => void,
  onPart: () => void = () => {},
): Promise<void> {
  const lost = (error: unknown): never => {
    throw error instanceof TypeError ? new ContactError() : error;
  };
  const response = await fetch(at(path), init).catch(lost);
  if (!response.ok || response.body === null) {
    throw errorOf(response, await response.json().catch(() => null));
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch(lost);
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : (lines.pop() ?? "");
    for (const line of lines) {
      if (line.trim() !== "") {
        onLine(line);
      }
    }
    onPart();
    if (done) {
      return;
    }
  }
}
