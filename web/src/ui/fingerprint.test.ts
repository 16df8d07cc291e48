import { expect, test } from "vitest";
import { fingerprintWords } from "./fingerprint";

const KEY = "0d810b47-25cd5e36-66fcf69e-9dd07d3d-fa9e6619-015bb250-f758e74a-b609ae5a";

test("Promise: a fingerprint has the same words everywhere, and another one has others", () => {
  const words = fingerprintWords(KEY);
  expect(words).toHaveLength(12);
  // The first 11 bits of 0d81… are 00001101100, the 109th word.
  expect(words[0]).toBe("assault");
  expect(fingerprintWords(KEY.replaceAll("-", "").toUpperCase())).toEqual(words);
  const other = fingerprintWords(KEY.replace("fcf69e", "fcf69f"));
  expect(other).not.toEqual(words);
});

test("Promise: what is no fingerprint has no words", () => {
  expect(fingerprintWords("")).toEqual([]);
  expect(fingerprintWords("0d810b47")).toEqual([]);
});
