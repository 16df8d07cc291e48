import { expect, test } from "vitest";
import { dayWords, placeOf, spansOf } from "./week";

test("Promise: a window over midnight is seen on both days, over the end of the week too", () => {
  const night = { name: "night", days: ["sun" as const], from: "22:00", to: "06:00" };
  const spans = spansOf([night]);
  expect(spans.sun).toEqual([{ window: "night", from: 1320, to: 1440 }]);
  expect(spans.mon).toEqual([{ window: "night", from: 0, to: 360 }]);
  expect(spans.tue).toEqual([]);
});

test("Promise: a window that ends at midnight stays within its day", () => {
  const late = { name: "late", days: ["mon" as const], from: "18:00", to: "00:00" };
  const spans = spansOf([late]);
  expect(spans.mon).toEqual([{ window: "late", from: 1080, to: 1440 }]);
  expect(spans.tue).toEqual([]);
  expect(placeOf({ window: "late", from: 1080, to: 1440 })).toEqual({ left: "75%", width: "25%" });
});

test("Promise: days in a row are a range", () => {
  expect(dayWords(["mon", "tue", "wed", "thu", "fri"])).toBe("Mon–Fri");
  expect(dayWords(["sat", "sun"])).toBe("Sat, Sun");
  expect(dayWords(["mon", "wed", "fri"])).toBe("Mon, Wed, Fri");
  expect(dayWords(["mon", "tue", "wed", "thu", "fri", "sat", "sun"])).toBe("every day");
});
