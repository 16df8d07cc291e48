import { expect, test } from "vitest";
import { sharesOf } from "./shares";

const user = (name: string, served: number, weight: number) => ({
  user: name,
  weight,
  running: 1,
  waiting: 2,
  served_bytes: served,
  expected_bytes: 0,
});

test("Promise: use and share are parts of the whole, the greatest use first", () => {
  const shares = sharesOf([user("ben", 100, 1), user("anna", 300, 3)]);
  expect(shares.map(({ user, used, due }) => [user, used, due])).toEqual([
    ["anna", 0.75, 0.75],
    ["ben", 0.25, 0.25],
  ]);
});

test("Promise: users who have moved nothing have shares, and no use", () => {
  const shares = sharesOf([user("ben", 0, 1), user("anna", 0, 1)]);
  expect(shares.map((share) => share.used)).toEqual([0, 0]);
  expect(shares.map((share) => share.due)).toEqual([0.5, 0.5]);
});
