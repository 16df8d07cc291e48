import { expect, test } from "vitest";
import {
  background,
  isOld,
  markOf,
  moreFiles,
  type PieceBytes,
  type PieceMap,
  stretchesOf,
  sumOf,
} from "./pieces";

const NONE: PieceBytes = { done: 0, written: 0, in_hand: 0, again: 0, failed: 0, left: 0 };

function mapOf(done: number[], left: number[], failures: number[]): PieceMap {
  const zero = done.map(() => 0);
  const buckets = {
    done,
    left,
    failures,
    written: zero,
    in_hand: zero,
    again: zero,
    failed: zero,
  };
  const at = "2026-11-26T10:00:00.000Z";
  return { at, basis: "ledger", listed: true, bytes: 0, totals: NONE, failures: 0, buckets };
}

test("Promise: stretches keep each byte and each failure, whatever their number is", () => {
  const map = mapOf([1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [0, 1, 0, 0, 2]);
  for (const most of [1, 2, 3, 5, 9]) {
    const stretches = stretchesOf(map, most);
    expect(stretches).toHaveLength(Math.min(most, 5));
    expect(stretches.reduce((sum, one) => sum + sumOf(one.bytes), 0)).toBe(30);
    expect(stretches.reduce((sum, one) => sum + one.failures, 0)).toBe(3);
  }
});

test("Promise: a share that is there is seen, and a cell is full", () => {
  const drawn = background({ ...NONE, done: 1_000_000, failed: 1 }, "to top");
  expect(drawn).toBe(
    "linear-gradient(to top, var(--piece-done) 0.00% 93.00%, var(--piece-failed) 93.00% 100.00%)",
  );
  expect(background(NONE, "to top")).toBe("none");
});

test("Promise: the mark of a cell is the gravest one", () => {
  const bytes = { ...NONE, in_hand: 1 };
  expect(markOf({ bytes, failures: 0 })).toBe("in_hand");
  expect(markOf({ bytes: { ...bytes, again: 1 }, failures: 0 })).toBe("again");
  expect(markOf({ bytes: { ...bytes, again: 1 }, failures: 1 })).toBe("failed");
  expect(markOf({ bytes: { ...NONE, left: 1 }, failures: 0 })).toBeUndefined();
});

test("Promise: files that the map does not have yet are counted, and an old map tells its age", () => {
  const map = mapOf([1], [0], [0]);
  const files = [{ path: "a", bytes: NONE }];
  expect([moreFiles({ ...map, files }, 7), moreFiles({ ...map, files }, 1)]).toEqual([6, 0]);
  const now = Date.parse(map.at);
  expect([isOld(map.at, now + 9_000), isOld(map.at, now + 60_000)]).toEqual([false, true]);
});
