/** What became of the bytes of a transfer: the shares of the piece map, and how they are drawn. */

import type { Schemas } from "../../../api/client";

export type PieceMap = Schemas["PieceMap"];
export type PieceBytes = Schemas["PieceBytes"];
export type ShareKey = keyof PieceBytes;

/** The shares in the order in which they are drawn, from the ground up. */
export const SHARES: readonly { key: ShareKey; label: string }[] = [
  { key: "done", label: "Done" },
  { key: "written", label: "Written, not yet durable" },
  { key: "in_hand", label: "In the hands of a peer" },
  { key: "again", label: "To be sent again" },
  { key: "failed", label: "Failed" },
  { key: "left", label: "Left" },
];

const NONE: PieceBytes = { done: 0, written: 0, in_hand: 0, again: 0, failed: 0, left: 0 };

export function sumOf(bytes: PieceBytes): number {
  return SHARES.reduce((sum, { key }) => sum + bytes[key], 0);
}

/** Returns how many of the files that were found are not in a map that has files. */
export function moreFiles({ files }: PieceMap, found: number): number {
  return Math.max(0, found - (files?.length ?? 0));
}

/** Age in milliseconds from which a map is not that of now. */
const OLD_MS = 10_000;

export function isOld(at: string, now: number): boolean {
  return now - Date.parse(at) > OLD_MS;
}

export interface Stretch {
  bytes: PieceBytes;
  failures: number;
}

/** Returns the buckets of a map, put together until there are at most so many. */
export function stretchesOf({ buckets }: PieceMap, most: number): Stretch[] {
  const count = buckets.left.length;
  const number = Math.min(count, most);
  const stretches = Array.from({ length: number }, () => ({ bytes: { ...NONE }, failures: 0 }));
  for (let bucket = 0; bucket < count; bucket += 1) {
    const stretch = stretches[Math.floor((bucket * number) / count)];
    if (stretch !== undefined) {
      for (const { key } of SHARES) {
        stretch.bytes[key] += buckets[key][bucket] ?? 0;
      }
      stretch.failures += buckets.failures[bucket] ?? 0;
    }
  }
  return stretches;
}

/** Least part of a cell that a share has which is there: what is rare is seen, too. */
const LEAST = 0.07;

/**
 * Returns the background of a cell: a stop for each share, from the ground up, or from the left.
 * Shares that are rare get a least height, at the cost of the greatest one.
 */
export function background(bytes: PieceBytes, direction: "to top" | "to right"): string {
  const total = sumOf(bytes);
  if (total === 0) {
    return "none";
  }
  const parts = SHARES.map(({ key }) => ({
    key,
    part: bytes[key] === 0 ? 0 : Math.max(bytes[key] / total, LEAST),
  }));
  const whole = parts.reduce((sum, { part }) => sum + part, 0);
  const greatest = parts.reduce((one, other) => (other.part > one.part ? other : one));
  greatest.part -= whole - 1;
  const stops: string[] = [];
  let at = 0;
  for (const { key, part } of parts) {
    if (part > 0) {
      const [from, to] = [at, at + part].map((edge) => `${(edge * 100).toFixed(2)}%`);
      stops.push(`var(--piece-${key}) ${from} ${to}`);
      at += part;
    }
  }
  return `linear-gradient(${direction}, ${stops.join(", ")})`;
}

/** The mark below a cell; the gravest one counts. */
export function markOf({ bytes, failures }: Stretch): "failed" | "again" | "in_hand" | undefined {
  if (failures > 0 || bytes.failed > 0) {
    return "failed";
  }
  return bytes.again > 0 ? "again" : bytes.in_hand > 0 ? "in_hand" : undefined;
}
