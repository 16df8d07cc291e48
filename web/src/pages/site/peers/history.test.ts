import { expect, test } from "vitest";
import { type Cores, cardsOf, coreWords, lastOf, pathOf } from "./history";

const column = (name: string, of: string, mean: (number | null)[]) => {
  return { name, of, min: mean, mean, max: mean };
};

test("Promise: the cards with most bytes are drawn, each with both ways", () => {
  const names = ["a", "b", "c", "d", "e", "f"];
  const columns = names.flatMap((name, index) => [
    column("card_in_bits_per_s", name, [index, null]),
    column("card_out_bits_per_s", name, [0, 10 * index]),
  ]);
  const { lines, more } = cardsOf({ peer: "h1", at: [0, 10], seconds: [10, 10], columns });
  expect(lines.map((line) => line.card)).toEqual(["f", "e", "d", "c"]);
  expect([lines[0]?.most, lines[0]?.out, more]).toEqual([50, [0, 50], 2]);
});

test("Promise: a line is broken where nothing is known, and stays within its box", () => {
  const box = { width: 30, height: 10 };
  expect(pathOf([0, 5, null, 20], 10, box)).toBe("M0.0 10.0L10.0 5.0M30.0 0.0");
  expect(pathOf([1], 0, box)).toBe("M0.0 10.0");
});

test("Promise: the figure of now is that of the last point, and no older one", () => {
  expect(lastOf([1, 0])).toBe(0);
  expect(lastOf([1, 2, null])).toBeNull();
  expect(lastOf([])).toBeNull();
});

test("Promise: words tell the mean of the processors, and the busiest", () => {
  const cores = [
    { core: 0, busy_percent: { mean: 10 } },
    { core: 1, busy_percent: { mean: 90 } },
  ];
  expect(coreWords(cores as Cores)).toBe("50 % busy on average; CPU 1 the most, 90 %");
});
