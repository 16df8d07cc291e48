import { expect, test } from "vitest";
import { above, below, browseAt, crumbs, transferOf } from "./place";

test("Promise: paths go down and up again, with names of any bytes", () => {
  expect(below("", "run7")).toBe("run7");
  expect(below("a/b", "c\\xff")).toBe("a/b/c\\xff");
  expect(above("a/b")).toBe("a");
  expect(above("a")).toBe("");
  expect(above("")).toBeNull();
  expect(crumbs("a/b")).toEqual([
    { name: "a", path: "a" },
    { name: "b", path: "a/b" },
  ]);
  expect(browseAt("lab", "raw", "a b/c&d")).toBe("/stores/lab/raw?path=a+b%2Fc%26d");
});

test("Promise: a transfer begins with a directory and the names that were chosen in it", () => {
  const inner = new URLSearchParams(transferOf("lab", "raw", "a/b", ["x"]).slice(5));
  expect(inner.get("source")).toBe("lab:raw/a/b");
  expect(inner.getAll("item")).toEqual(["x"]);
  const root = new URLSearchParams(transferOf("lab", "raw", "", ["x", "y z"]).slice(5));
  expect(root.get("source")).toBe("lab:raw");
  expect(root.getAll("item")).toEqual(["x", "y z"]);
});
