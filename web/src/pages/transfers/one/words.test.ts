import { expect, test } from "vitest";
import type { TransferView } from "./useTransfer";
import { failureWords, notKeptWords, stateSentence } from "./words";

function view(change: object, progress: object = {}): TransferView {
  const figures = { bytes: 0, bytes_found: 0, files: 0, seconds: 0, skipped: 0, ...progress };
  return {
    state: "running",
    reason: "",
    failures: { count: 0, first: [] },
    progress: { scan_complete: true, ...figures },
    ...change,
  } as unknown as TransferView;
}

test("Promise: the state of a transfer is a sentence that a person understands", () => {
  const waiting = { code: "turn", text: "its turn: 3 before it" };
  expect(stateSentence(view({ state: "queued", waiting }))).toBe(
    "Waits for its turn: 3 before it.",
  );
  const bottleneck = { code: "target", text: "writing at the target" };
  expect(stateSentence(view({ bottleneck }))).toBe("Runs, limited by writing at the target.");
  expect(
    stateSentence(view({ state: "paused", waiting: { code: "user", on: { name: "anna" } } })),
  ).toMatch(/^Paused by anna\./);
  const done = view({ state: "done" }, { files: 40, bytes: 40 << 20, seconds: 10 });
  expect(stateSentence(done)).toBe(
    "Done: 40 files, 40 MiB, verified and durable, in 10 s at 33.6 Mbit/s on average.",
  );
  expect(stateSentence(view({ state: "done" }, { skipped: 3 }))).toMatch(/all 3 items were there/);
  const failed = view({ state: "failed", failures: { count: 1, first: [] } });
  expect(stateSentence(failed)).toBe("1 item failed; all else is at the target.");
  expect(stateSentence(view({ state: "of a later release", reason: "sleeps" }))).toBe("Sleeps.");
});

test("Promise: a code of a later release is shown as it is", () => {
  expect(failureWords("denied").title).toBe("May not be read or written");
  expect(failureWords("melted").title).toBe("melted");
  expect(notKeptWords({ class: "user-xattrs", items: 2, why: "not-supported" })).toBe(
    "user xattrs of 2 items: the file system of the target does not have them",
  );
});
