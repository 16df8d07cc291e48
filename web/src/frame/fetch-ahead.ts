/** Fetches the programs of pages before they are asked for. */

import type { LazyPage } from "../routes";

/** Time for which the first page has the line for itself, in milliseconds. */
const FIRST_MS = 1_000;

/**
 * Fetches programs one after the other while the browser has nothing else to do: each page opens
 * at once then, also while the daemon is away, or after it was updated. Stops at the first that
 * fails; the page itself says so when it is opened. Returns a function that ends it.
 */
export function fetchAhead(pages: readonly LazyPage[]): () => void {
  const rest = [...pages];
  let ended = false;
  const next = () => {
    const page = ended ? undefined : rest.shift();
    page?.fetchPart().then(
      () => whenIdle(next),
      () => {},
    );
  };
  const timer = window.setTimeout(() => whenIdle(next), FIRST_MS);
  return () => {
    ended = true;
    window.clearTimeout(timer);
  };
}

function whenIdle(run: () => void): void {
  // Safari has no such call (caniuse.com, requestidlecallback).
  if ("requestIdleCallback" in window) {
    window.requestIdleCallback(run);
  } else {
    setTimeout(run, 50);
  }
}
