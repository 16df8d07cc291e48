import { expect, test } from "vitest";
import { strengthOf } from "./strength";

test("Promise: what the daemon would refuse is never called fair", () => {
  expect(strengthOf("")).toBe(0);
  expect(strengthOf("short")).toBe(1);
  expect(strengthOf("aaaaaaaaaaaaaaaaaaaa")).toBe(1);
  expect(strengthOf("abcdefabcdef")).toBe(2);
  expect(strengthOf("four quiet blue pipes")).toBe(3);
});
