import { expect, test } from "vitest";
import {
  formatBytes,
  formatDuration,
  formatLocation,
  formatRate,
  formatRelative,
  formatShare,
} from "./format";

test("Promise: bytes are binary, with three digits", () => {
  const cases: [number, string][] = [
    [0, "0 B"],
    [999, "999 B"],
    [1024, "1 KiB"],
    [1536, "1.50 KiB"],
    [10_485_760, "10 MiB"],
    [123_456_789, "118 MiB"],
    [2 ** 40 * 2.34, "2.34 TiB"],
  ];
  for (const [bytes, text] of cases) {
    expect(formatBytes(bytes)).toBe(text);
  }
});

test("Promise: rates are decimal", () => {
  expect(formatRate(0)).toBe("0 bit/s");
  expect(formatRate(93_100_000_000)).toBe("93.1 Gbit/s");
  expect(formatRate(999_960)).toBe("1.00 Mbit/s");
});

test("Promise: only what is complete is 100 %", () => {
  expect(formatShare(1)).toBe("100 %");
  expect(formatShare(0.9999)).toBe("99.9 %");
  expect(formatShare(0.994)).toBe("99 %");
  expect(formatShare(0.004)).toBe("0.4 %");
  expect(formatShare(0)).toBe("0 %");
});

test("Promise: a duration has at most two units", () => {
  expect(formatDuration(4.4)).toBe("4 s");
  expect(formatDuration(95)).toBe("1 min 35 s");
  expect(formatDuration(720)).toBe("12 min");
  expect(formatDuration(12_000)).toBe("3 h 20 min");
  expect(formatDuration(200_000)).toBe("2 d 7 h");
});

test("Promise: times are told from now on", () => {
  expect(formatRelative(1_000, 2_000)).toBe("now");
  expect(formatRelative(0, 720_000)).toBe("12 min ago");
  expect(formatRelative(3 * 3_600_000, 0)).toBe("in 3 h");
});

test("Promise: a place reads as the command line takes it", () => {
  expect(formatLocation({ site: "lab", store: "raw", path: "run7", slash: true })).toBe(
    "lab:raw/run7/",
  );
  expect(formatLocation({ site: "hpc", store: "scratch", path: "" })).toBe("hpc:scratch");
});
