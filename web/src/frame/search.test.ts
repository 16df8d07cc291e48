import { expect, test } from "vitest";
import type { TransferSummary } from "../api/queries";
import { fits, fitsTransfer, isIdPart } from "./search";

const place = (path: string) => ({ site: "lab", store: "raw", path, slash: false });

const transfer = {
  id: "7f3a90c25be14d068a1e52c7f0b94d11",
  label: "run 7",
  owner: "anna",
  state: "running",
  source: place("frames"),
  target: place("x"),
} as unknown as TransferSummary;

test("Promise: each word of a search has to fit, in any order and case", () => {
  expect(fits("RAW lab", "lab:raw")).toBe(true);
  expect(fits("raw hpc", "lab:raw")).toBe(false);
});

test("Promise: a transfer is found by label, owner, place, and the begin of its id", () => {
  for (const search of ["run 7", "anna", "lab:raw/frames", "7f3a", "7F3A90"]) {
    expect(fitsTransfer(search, transfer)).toBe(true);
  }
  // Digits within the id are no find: `run 8` is another transfer.
  for (const search of ["run 8", "90c2", "ben"]) {
    expect(fitsTransfer(search, transfer)).toBe(false);
  }
  expect(isIdPart("7f3")).toBe(false);
  expect(isIdPart("7f3g")).toBe(false);
});
