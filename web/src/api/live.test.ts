import { QueryClient } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Live } from "./live";

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("window", globalThis);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("Promise: what is paused, waits or has ended stays known in silence; what ran does not", () => {
  const live = new Live(new QueryClient());
  const inner = live as unknown as { take(data: string): void; tick(): void };
  const states = ["paused", "queued", "done", "running"];
  for (const state of states) {
    inner.take(JSON.stringify({ type: "status", id: state, state, rate_bits_per_s: 1 }));
  }
  vi.setSystemTime(Date.now() + 61_000);
  inner.tick();
  const known = states.map((id) => live.progressOf(id)?.state);
  expect(known).toEqual(["paused", "queued", "done", undefined]);
});
