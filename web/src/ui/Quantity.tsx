/** Figures and times, short on the page and exact where the pointer rests. */

import { useSyncExternalStore } from "react";
import {
  exactBytes,
  exactRate,
  formatBytes,
  formatCount,
  formatDuration,
  formatMoment,
  formatRate,
  formatRelative,
} from "./format";

export function Bytes({ value }: { value: number }) {
  return (
    <span className="nowrap" title={exactBytes(value)}>
      {formatBytes(value)}
    </span>
  );
}

export function Rate({ value }: { value: number }) {
  return (
    <span className="nowrap" title={exactRate(value)}>
      {formatRate(value)}
    </span>
  );
}

export function Count({ value }: { value: number }) {
  return <span className="nowrap">{formatCount(value)}</span>;
}

export function Duration({ seconds }: { seconds: number }) {
  return (
    <span className="nowrap" title={`${formatCount(Math.round(seconds))} seconds`}>
      {formatDuration(seconds)}
    </span>
  );
}

let now = Date.now();
const listeners = new Set<() => void>();
let timer: number | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= window.setInterval(() => {
    now = Date.now();
    for (const one of listeners) {
      one();
    }
  }, 5_000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      window.clearInterval(timer);
      timer = undefined;
    }
  };
}

/** Now, in milliseconds since 1970, anew every five seconds. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

/** A time of the API, relative to now; the exact one is its title. */
export function Moment({ at, exact = false }: { at: string | number; exact?: boolean }) {
  useNow();
  const time = typeof at === "number" ? at : Date.parse(at);
  const iso = new Date(time).toISOString();
  const moment = formatMoment(time);
  return (
    <time className="nowrap" dateTime={iso} title={`${moment} (${iso})`}>
      {exact ? moment : formatRelative(time, Date.now())}
    </time>
  );
}
