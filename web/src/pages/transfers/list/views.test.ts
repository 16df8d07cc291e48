import { expect, test } from "vitest";
import { NAME_MAX, parseViews, VIEWS_MAX, withView } from "./views";

const failed = { name: "failed", address: "/transfers?state=failed" };

test("Promise: views are what was saved, and nothing else leads anywhere", () => {
  expect(parseViews(JSON.stringify([failed]))).toEqual([failed]);
  expect(parseViews(undefined)).toEqual([]);
  for (const bad of ["{", "7", '{"a":1}', "[null, 7]"]) {
    expect(parseViews(bad)).toEqual([]);
  }
  for (const address of ["https://evil.example", "//evil.example", "/users", "/transfersx"]) {
    expect(parseViews(JSON.stringify([{ name: "x", address }]))).toEqual([]);
  }
  const long = { ...failed, name: "x".repeat(NAME_MAX + 1) };
  expect(parseViews(JSON.stringify([long]))).toEqual([]);
});

test("Promise: a view of the same name is replaced, and there are so many at most", () => {
  const night = { name: "Night", address: "/transfers?label=night" };
  expect(withView([failed], night)).toEqual([failed, night]);
  const other = { ...failed, address: "/transfers?state=failed&owner=anna" };
  expect(withView([failed, night], other)).toEqual([other, night]);
  let views = [failed];
  for (let index = 0; index < 2 * VIEWS_MAX; index += 1) {
    views = withView(views, { name: `v${index}`, address: "/transfers" });
  }
  expect(views).toHaveLength(VIEWS_MAX);
});
