/** Figures of a host over time: what is drawn small in its card. */

import type { Schemas } from "../../../api/client";

type Series = Schemas["PeerSeries"];
export type Cores = Schemas["PeerHistory"]["cores"];

/** Cards that are drawn; those with the most bytes. */
const CARDS_MAX = 4;

export interface CardLine {
  card: string;
  /** Mean values of each point, in bits per second; null where nothing is known. */
  in: (number | null)[];
  out: (number | null)[];
  /** The greatest value of both. */
  most: number;
}

function sum(values: readonly (number | null)[]): number {
  return values.reduce((total: number, value) => total + (value ?? 0), 0);
}

/** Returns the cards of a host with most bytes, and how many are left out. */
export function cardsOf(series: Series): { lines: CardLine[]; more: number } {
  const named = (name: string) => series.columns.filter((column) => column.name === name);
  const outs = new Map(named("card_out_bits_per_s").map((column) => [column.of, column]));
  const lines = named("card_in_bits_per_s").map((column) => {
    const out = outs.get(column.of);
    const greatest = [...column.max, ...(out?.max ?? [])].map((value) => value ?? 0);
    return {
      card: column.of ?? "",
      in: column.mean,
      out: out?.mean ?? [],
      most: greatest.reduce((one, other) => Math.max(one, other), 0),
    };
  });
  lines.sort((one, other) => sum(other.in) + sum(other.out) - sum(one.in) - sum(one.out));
  return { lines: lines.slice(0, CARDS_MAX), more: Math.max(0, lines.length - CARDS_MAX) };
}

/** Returns the path of a line in a box, broken where nothing is known. */
export function pathOf(
  values: readonly (number | null)[],
  most: number,
  { width, height }: { width: number; height: number },
): string {
  const step = width / Math.max(1, values.length - 1);
  let path = "";
  let drawn = false;
  values.forEach((value, index) => {
    if (value === null) {
      drawn = false;
      return;
    }
    const y = most > 0 ? height - (Math.min(value, most) / most) * height : height;
    path += `${drawn ? "L" : "M"}${(index * step).toFixed(1)} ${y.toFixed(1)}`;
    drawn = true;
  });
  return path;
}

/** Returns the value of the last point; null if it is not known, however new the one before is. */
export function lastOf(values: readonly (number | null)[]): number | null {
  return values.at(-1) ?? null;
}

/** Returns in words how busy the processors were. */
export function coreWords(cores: Cores): string {
  const mean = cores.reduce((total, core) => total + core.busy_percent.mean, 0) / cores.length;
  const busiest = cores.reduce((one, other) =>
    other.busy_percent.mean > one.busy_percent.mean ? other : one,
  );
  const most = Math.round(busiest.busy_percent.mean);
  return `${Math.round(mean)} % busy on average; CPU ${busiest.core} the most, ${most} %`;
}
