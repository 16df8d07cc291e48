import { expect, test } from "vitest";
import { nextOf } from "./next";

test("Promise: a log-in leads to a page of this site alone", () => {
  expect(nextOf("/transfers?state=failed")).toBe("/transfers?state=failed");
  expect(nextOf("/device?user_code=ABCD-EFGH")).toBe("/device?user_code=ABCD-EFGH");
  const strange = [
    null,
    "",
    "//evil.example",
    "/\\evil.example",
    "https://evil.example/",
    "javascript:alert(1)",
    "/login?next=/login",
    "transfers",
  ];
  for (const text of strange) {
    expect(nextOf(text)).toBe("/");
  }
});
