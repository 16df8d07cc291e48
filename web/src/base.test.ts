import { expect, test } from "vitest";
import { baseOf } from "./base";

test("Promise: the page knows the path below which a proxy serves it", () => {
  expect(baseOf("https://dtn1:7443/assets/index-1a2b3c4d.js")).toBe("");
  expect(baseOf("https://example.org/penstock/assets/AboutPage-1a2b.js")).toBe("/penstock");
  expect(baseOf("https://example.org/a/assets/b/assets/index-1.js")).toBe("/a/assets/b");
  expect(baseOf("http://localhost:5173/src/base.ts?t=1")).toBe("");
});
