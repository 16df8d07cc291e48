import { expect, test } from "vitest";
import { parsePlace } from "./places";

test("Promise: a link names a place as the command line does", () => {
  expect(parsePlace("lab:raw/2026/run7/")).toEqual({
    site: "lab",
    store: "raw",
    path: "2026/run7",
  });
  expect(parsePlace("lab:raw")).toEqual({ site: "lab", store: "raw", path: "" });
  expect(parsePlace("lab")).toBeUndefined();
  expect(parsePlace(null)).toBeUndefined();
});
