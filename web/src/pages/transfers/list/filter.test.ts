import { expect, test } from "vitest";
import type { TransferSummary } from "../../../api/queries";
import { addressOf, chipsOf, filterOf, mergedRows, queryOf } from "./filter";

test("Promise: a filter is the same after its address was sent to a colleague", () => {
  const address =
    "/transfers?state=running,failed&label=run+7&site=lab&owner=anna&since=7d&sort=created";
  const filter = filterOf(address.split("?")[1] ?? "");
  expect(addressOf(filter)).toBe(address);
  expect(addressOf(filterOf(""))).toBe("/transfers");
  expect(filterOf("since=never").since).toBe("");
  expect(filterOf("since=constructor").since).toBe("");
});

test("Promise: the API is asked for what the filter says, and the key is stable over a day", () => {
  const filter = filterOf("state=queued&attention=true&since=1d");
  const morning = queryOf(filter, Date.parse("2026-11-26T01:00:00Z"));
  expect(morning).toEqual({
    state: "queued",
    attention: true,
    since: "2026-11-25T00:00:00.000Z",
  });
  expect(queryOf(filter, Date.parse("2026-11-26T23:00:00Z"))).toEqual(morning);
});

test("Promise: each chip takes its own part away", () => {
  const filter = filterOf("state=running,failed&label=run");
  const chips = chipsOf(filter);
  expect(chips.map((chip) => chip.text)).toEqual(["running", "failed", "label: run"]);
  expect(addressOf({ ...filter, ...chips[0]?.without })).toBe("/transfers?state=failed&label=run");
});

test("Promise: new transfers come first, changed ones in place, and none is twice", () => {
  const row = (id: string, state: string) => ({ id, state }) as TransferSummary;
  const parts = [
    { items: [row("c", "running"), row("b", "done")], next: "x" },
    { items: [row("b", "done"), row("a", "done")] },
  ];
  const head = { items: [row("d", "queued"), row("c", "done")], next: "y" };
  const rows = mergedRows(parts, head, false);
  expect(rows.map((one) => `${one.id} ${one.state}`)).toEqual([
    "d queued",
    "c done",
    "b done",
    "a done",
  ]);
  expect(mergedRows(parts, head, true).map((one) => one.id)).toEqual(["c", "b", "a"]);
  expect(mergedRows(parts, { items: [row("z", "done")] }, false).map((one) => one.id)).toEqual([
    "z",
  ]);
});
