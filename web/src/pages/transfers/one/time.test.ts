import { expect, test } from "vitest";
import { sidesOf } from "./time";

test("Promise: each side's time is shown in groups, without lanes that had nothing to do", () => {
  const source = [{ peer: "a", cores: 2, lanes: { read: 6, hash: 1, seal: 1, cpu: 3 } }];
  const target = [
    { peer: "", cores: 2, lanes: { wait_source: 7, idle: 90 }, publishers: { sync: 1 } },
    { peer: "b", cores: 2, lanes: { write: 2 } },
  ];
  const sides = sidesOf({ source, target });
  expect(sides.map(({ label, whole }) => [label, whole])).toEqual([
    ["Source", 8],
    ["Target", 10],
  ]);
  expect(sides[1]?.parts.map(({ key, seconds }) => [key, seconds])).toEqual([
    ["storage", 3],
    ["side", 7],
  ]);
  expect(sidesOf({ source, target, is_local: true }).map((side) => side.whole)).toEqual([18, 18]);
  expect(sidesOf(undefined)).toEqual([]);
  expect(sidesOf({ source: [], target })).toHaveLength(1);
});
