/** A plan as it arrives: its first items by action, its totals, its forecast. */

import type { Schemas } from "../../../api/client";
import { readLines } from "../../../api/lines";
import { ProblemError } from "../../../api/problem";

export type PlanItem = Schemas["PlanLineItem"];
export type PlanEnd = Schemas["PlanLineEnd"];

export interface Plan {
  /** Items read so far, those that are not kept among them. */
  read: number;
  /** The first items of each action. */
  first: Map<string, PlanItem[]>;
  /** Present once all has been read. */
  end?: PlanEnd;
}

/** Items that are kept of each action: a plan may list millions. */
export const KEPT_MAX = 200;

export function emptyPlan(): Plan {
  return { read: 0, first: new Map(), end: undefined };
}

/** Adds a line to a plan. A line of a later release is passed over. */
export function addLine(plan: Plan, text: string): void {
  const line = JSON.parse(text) as { type?: string };
  if (line.type === "end") {
    plan.end = line as PlanEnd;
  } else if (line.type === "item") {
    const item = line as PlanItem;
    plan.read += 1;
    const kept = plan.first.get(item.action) ?? [];
    if (kept.length < KEPT_MAX) {
      plan.first.set(item.action, [...kept, item]);
    }
  }
}

/** Asks for a plan, and calls `onPart` for what has arrived so far. */
export async function readPlan(
  body: Schemas["SubmitRequest"],
  signal: AbortSignal,
  onPart: (plan: Plan) => void,
): Promise<Plan> {
  const headers = { "content-type": "application/json", accept: "application/jsonl" };
  const init = { method: "POST", headers, body: JSON.stringify(body), signal };
  const plan = emptyPlan();
  const take = (line: string) => addLine(plan, line);
  await readLines("/api/v1/plans", init, take, () => onPart({ ...plan }));
  if (plan.end === undefined) {
    throw new ProblemError({
      type: "about:blank",
      code: "plan-cut",
      title: "The plan was cut off",
      detail: `The answer ended after ${plan.read} items`,
      cause: "",
      hint: "Make the plan again; the log of the daemon says more",
      status: 0,
      exit: "temporary",
      retryable: true,
    });
  }
  return plan;
}
