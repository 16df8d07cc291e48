/** The rate of each transfer over time, as far as this page has seen it. */

export interface Series {
  /** Seconds since 1970, ascending. */
  at: number[];
  /** Bits per second; null while it did not run, or nothing was heard of it. */
  rate: (number | null)[];
}

export const NO_SERIES: Series = { at: [], rate: [] };

/** Samples that are kept of a transfer: half an hour, at one a second. */
export const SERIES_MAX = 1_800;
/** Silence that a chart shows as a gap, in seconds. */
const GAP_S = 8;
/** Most transfers with a series; the one heard of longest ago goes first. */
const BOOK_MAX = 200;

export class SeriesBook {
  private readonly book = new Map<string, Series>();

  of(id: string): Series {
    return this.book.get(id) ?? NO_SERIES;
  }

  note(id: string, at: number, rate: number | null): void {
    const before = this.of(id);
    this.book.delete(id);
    this.book.set(id, extended(before, at, rate));
    if (this.book.size > BOOK_MAX) {
      const oldest = this.book.keys().next().value;
      if (oldest !== undefined) {
        this.book.delete(oldest);
      }
    }
  }
}

/** Returns a series with one more sample; a new object, so that a chart sees the change. */
export function extended(series: Series, at: number, rate: number | null): Series {
  const last = series.at.at(-1);
  if (last !== undefined && at - last < 0.5) {
    return { at: series.at, rate: [...series.rate.slice(0, -1), rate] };
  }
  const isGap = last !== undefined && at - last > GAP_S;
  const times = isGap ? [...series.at, last + 1, at] : [...series.at, at];
  const rates = isGap ? [...series.rate, null, rate] : [...series.rate, rate];
  return { at: times.slice(-SERIES_MAX), rate: rates.slice(-SERIES_MAX) };
}
