import { expect, test } from "vitest";
import { formatFigure, labelOf, ordered } from "./figures";

test("Promise: a value has the unit of its name", () => {
  expect(formatFigure("rate_bits_per_s", 9_410_000_000)).toBe("9.41 Gbit/s");
  expect(formatFigure("disks_read_bytes_per_s", 3 * 1024 * 1024)).toBe("3 MiB/s");
  expect(formatFigure("memory_used_bytes", 2048)).toBe("2 KiB");
  expect(formatFigure("cpu_busy_percent", 12.34)).toBe("12.3 %");
  expect(formatFigure("package_watts", 181.6)).toBe("182 W");
  expect(formatFigure("lanes", 4)).toBe("4");
});

test("Promise: a figure of a later release is shown under its own name, last", () => {
  expect(labelOf("heat_of_cards")).toBe("heat of cards");
  const names = ["heat_of_cards", "lanes", "rate_bits_per_s"].map((name) => ({ name }));
  expect(ordered(names).map(({ name }) => name)).toEqual([
    "rate_bits_per_s",
    "lanes",
    "heat_of_cards",
  ]);
});
