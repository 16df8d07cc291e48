import { expect, test } from "vitest";
import { addLine, emptyPlan, KEPT_MAX } from "./plan";

test("Promise: a plan of any length keeps its first items and its totals", () => {
  const plan = emptyPlan();
  addLine(plan, JSON.stringify({ type: "plan", v: 1 }));
  for (let index = 0; index < KEPT_MAX + 50; index += 1) {
    addLine(plan, JSON.stringify({ type: "item", action: "copy", path: `f${index}`, size: 1 }));
  }
  addLine(plan, JSON.stringify({ type: "item", action: "delete", path: "old", size: 1 }));
  addLine(plan, JSON.stringify({ type: "of a later release" }));
  expect(plan.read).toBe(KEPT_MAX + 51);
  expect(plan.first.get("copy")).toHaveLength(KEPT_MAX);
  expect(plan.first.get("delete")?.[0]?.path).toBe("old");
  expect(plan.end).toBeUndefined();
  addLine(plan, JSON.stringify({ type: "end", totals: {} }));
  expect(plan.end).toBeDefined();
});
