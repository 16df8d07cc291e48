import { expect, test } from "vitest";
import { settledOf, shareOf } from "./settled";

test("Promise: data that is verified or stays as it is counts, once, whole file or not", () => {
  const found = { bytes: 10, bytes_found: 100 };
  expect(settledOf(found)).toBe(10);
  expect(settledOf({ ...found, bytes_settled: 30 })).toBe(30);
  const told = { ...found, bytes_verified: 40, bytes_resumed: 5, bytes_resent: 2 };
  expect(settledOf(told)).toBe(43);
  expect(settledOf({ ...told, bytes_skipped: 50 })).toBe(93);
  expect(settledOf({ ...told, bytes_skipped: 90 })).toBe(100);
  expect(shareOf({ ...told, bytes_skipped: 50 }, "running")).toBe(0.93);
  expect(shareOf(found, "done")).toBe(1);
  expect(shareOf({ bytes: 0, bytes_found: 0 }, "running")).toBeNull();
});
