import { expect, test } from "vitest";
import { parseRate } from "./rate";

test("Promise: rates are read as people write them, bytes only where it says so", () => {
  expect(parseRate("2 Gbit/s")).toBe(2e9);
  expect(parseRate("500M")).toBe(5e8);
  expect(parseRate("100 MB/s")).toBe(8e8);
  expect(parseRate("1.5g")).toBe(1.5e9);
  expect(parseRate("64000")).toBe(64_000);
  expect(parseRate(" ")).toBeNull();
});

test("Promise: what is no rate is refused, not guessed", () => {
  for (const text of ["fast", "-1", "2 Gbit/h", "1,5G", "G"]) {
    expect(parseRate(text)).toBeUndefined();
  }
});
