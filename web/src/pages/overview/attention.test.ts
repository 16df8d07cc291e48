import { expect, test } from "vitest";
import type { TransferSummary } from "../../api/queries";
import { attention, type Sources } from "./attention";

const NOW = Date.parse("2026-11-26T12:00:00Z");

function transfer(change: Partial<TransferSummary>): TransferSummary {
  return {
    id: "00112233445566778899aabbccddeeff",
    source: { site: "lab", store: "raw", path: "run7" },
    target: { site: "hpc", store: "scratch", path: "" },
    direction: "out",
    state: "running",
    reason: "",
    created_at: "2026-11-26T11:00:00Z",
    attempt: 1,
    progress: {
      bytes: 1,
      bytes_durable: 1,
      bytes_found: 9,
      errors: 0,
      files: 0,
      files_found: 1,
      rate_bits_per_s: 5,
      scan_complete: true,
      seconds: 1,
    },
    failures: { count: 0 },
    files_from_count: 0,
    ...change,
  } as TransferSummary;
}

const QUIET: Sources = { findings: [], troubled: [], active: [], webhooks: [], now: NOW };

test("Promise: where all is well nothing needs attention", () => {
  const finding = {
    code: "clock",
    level: "ok",
    peer: "",
    what: "clocks agree",
    why: "",
    action: "",
  };
  expect(attention({ ...QUIET, findings: [finding], active: [transfer({})] })).toEqual([]);
});

test("Promise: the worst comes first, and each matter once", () => {
  const waits = transfer({
    id: "b",
    state: "queued",
    waiting: { code: "store-offline", since: "2026-11-26T11:00:00Z", text: "the store raw" },
  });
  const failed = transfer({ state: "failed", label: "run 7", failures: { count: 3 } });
  const found = attention({ ...QUIET, troubled: [waits, failed, failed] });
  expect(found.map((one) => [one.level, one.what])).toEqual([
    ["bad", "run 7 failed: 3 items failed"],
    ["warning", "Transfer b waits for the store raw"],
  ]);
});

test("Promise: a failure of long ago is history, and no matter of now", () => {
  const failed = transfer({ state: "failed", ended_at: "2026-10-01T00:00:00Z" });
  expect(attention({ ...QUIET, troubled: [failed] })).toEqual([]);
});

test("Promise: a transfer that runs and moves nothing is named", () => {
  const progress = { ...transfer({}).progress, rate_bits_per_s: 0 };
  const found = attention({ ...QUIET, active: [transfer({ progress })] });
  expect(found.map((one) => one.key)).toEqual(["quiet 00112233445566778899aabbccddeeff"]);
});
