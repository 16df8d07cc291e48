import { expect, test } from "vitest";
import { type Heard, NO_RATES, SAMPLES_MAX, sumRates, withSample } from "./rates";

const directions = new Map([
  ["a", "in"],
  ["b", "in"],
  ["c", "out"],
  ["d", "of a later release"],
]);

test("Promise: only fresh figures of transfers that run are summed", () => {
  const heard = new Map<string, Heard>([
    ["a", { rate: 5, running: true, at: 10_000 }],
    ["b", { rate: 7, running: true, at: 1_000 }],
    ["c", { rate: 3, running: false, at: 10_000 }],
    ["d", { rate: 9, running: true, at: 10_000 }],
    ["e", { rate: 9, running: true, at: 10_000 }],
  ]);
  expect(sumRates(heard, directions, 10_500)).toEqual({ in: 5, out: 0, within: 0 });
});

test("Promise: the history is bounded, and shows the time without contact as a gap", () => {
  let history = NO_RATES;
  for (let second = 0; second < SAMPLES_MAX + 5; second += 1) {
    history = withSample(history, second, second % 2 ? { in: 1, out: 2, within: 0 } : null);
  }
  expect(history.at).toHaveLength(SAMPLES_MAX);
  expect(history.at[0]).toBe(5);
  expect(history.in.slice(0, 2)).toEqual([1, null]);
  history = withSample(history, SAMPLES_MAX + 100, { in: 3, out: 0, within: 0 });
  expect(history.at.slice(-2)).toEqual([SAMPLES_MAX + 5, SAMPLES_MAX + 100]);
  expect(history.in.slice(-2)).toEqual([null, 3]);
  expect(history.at[0]).toBe(101);
});
