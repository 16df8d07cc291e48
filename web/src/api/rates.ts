/** Rates of the site, from the events of its transfers. */

import type { TransferSummary } from "./queries";

/** Longest time for which a figure counts as one of now, in milliseconds. */
export const FRESH_MS = 3_000;
/** Samples that are kept, one a second. */
export const SAMPLES_MAX = 600;
/** Seconds between two samples from which on the page was asleep. */
const GAP_S = 8;

/** Bits per second into the site, out of it, and between its own stores. */
export interface Rates {
  in: number;
  out: number;
  within: number;
}

export type Direction = keyof Rates;

/** The rate of a transfer when it was last heard of. */
export interface Heard {
  rate: number;
  running: boolean;
  at: number;
}

/** Columns as a chart takes them; `null` where nothing was heard of the site. */
export interface RateHistory {
  /** Seconds since 1970. */
  at: number[];
  in: (number | null)[];
  out: (number | null)[];
  within: (number | null)[];
}

export const NO_RATES: RateHistory = { at: [], in: [], out: [], within: [] };

/** Sums the rates of the transfers that run, by direction. Old figures count as none. */
export function sumRates(
  heard: ReadonlyMap<string, Heard>,
  directions: ReadonlyMap<string, string>,
  now: number,
): Rates {
  const sum: Rates = { in: 0, out: 0, within: 0 };
  for (const [id, one] of heard) {
    const direction = directions.get(id);
    if (one.running && now - one.at <= FRESH_MS && direction !== undefined && direction in sum) {
      sum[direction as Direction] += one.rate;
    }
  }
  return sum;
}

/**
 * Returns the history with one more sample; a new object, so that a chart sees the change. Time
 * that the page slept through is a gap.
 */
export function withSample(history: RateHistory, at: number, rates: Rates | null): RateHistory {
  const last = history.at.at(-1);
  const slept = last !== undefined && at - last > GAP_S;
  return appended(slept ? appended(history, last + 1, null) : history, at, rates);
}

function appended(history: RateHistory, at: number, rates: Rates | null): RateHistory {
  const old = history.at.filter((time) => time <= at - SAMPLES_MAX).length;
  const add = <T>(column: T[], value: T) => [...column.slice(old), value];
  return {
    at: add(history.at, at),
    in: add(history.in, rates?.in ?? null),
    out: add(history.out, rates?.out ?? null),
    within: add(history.within, rates?.within ?? null),
  };
}

/** Returns the rate of a transfer as its list tells, for those that another site owns. */
export function heardOf(summary: TransferSummary, now: number): Heard {
  const running = summary.state === "running";
  return { rate: summary.progress.rate_bits_per_s, running, at: now };
}
