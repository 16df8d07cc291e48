import { expect, test } from "vitest";
import { extended, NO_SERIES, SERIES_MAX, SeriesBook } from "./series";

test("Promise: a series shows silence as a gap, and is bounded", () => {
  let series = extended(extended(NO_SERIES, 10, 5), 11, 6);
  series = extended(series, 60, 7);
  expect(series).toEqual({ at: [10, 11, 12, 60], rate: [5, 6, null, 7] });
  // Two figures of one moment: the later one counts.
  expect(extended(series, 60.1, 8).rate).toEqual([5, 6, null, 8]);
  for (let second = 61; second < 61 + SERIES_MAX; second += 1) {
    series = extended(series, second, 1);
  }
  expect(series.at).toHaveLength(SERIES_MAX);
});

test("Promise: the book keeps the transfers that were heard of last", () => {
  const book = new SeriesBook();
  for (let index = 0; index < 300; index += 1) {
    book.note("kept", index, 1);
    book.note(`t${index}`, index, 1);
  }
  expect(book.of("kept").at).toHaveLength(300);
  expect(book.of("t0")).toBe(NO_SERIES);
  expect(book.of("t299").rate).toEqual([1]);
});
