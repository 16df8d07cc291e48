/** Queries that more than one page uses. */

import { useQuery } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "./client";
import { keys } from "./keys";

export type Me = Schemas["MeView"];
export type TransferSummary = Schemas["TransferSummary"];

/** States of a transfer that has ended: only `retry` begins it anew. */
export const ENDED_STATES: ReadonlySet<string> = new Set(["done", "failed", "cancelled"]);
/** Most transfers that the frame and the overview look at: of those that run, and that wait. */
export const RUNNING_MAX = 200;
export const WAITING_MAX = 50;

export function useMe() {
  return useQuery({
    queryKey: keys.me,
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/me", { signal })),
    staleTime: 60_000,
  });
}

/** Returns whether the caller has a right; false until that is known. */
export function useRight(right: string): boolean {
  return useMe().data?.rights.includes(right) ?? false;
}

export function useMethods() {
  return useQuery({
    queryKey: keys.methods,
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/auth/methods", { signal })),
    staleTime: 60_000,
  });
}

export function useStatus() {
  return useQuery({
    queryKey: keys.status,
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/status", { signal })),
    refetchInterval: 30_000,
  });
}

export function useHealth() {
  return useQuery({
    queryKey: keys.health,
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/site/health", { signal })),
    refetchInterval: 15_000,
  });
}

export function useSites() {
  return useQuery({
    queryKey: keys.sites,
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/sites", { signal })),
    refetchInterval: 60_000,
  });
}

function useInState(state: string, limit: number) {
  return useQuery({
    queryKey: keys.transferList({ state, limit }),
    queryFn: ({ signal }) => {
      const params = { query: { state, limit } };
      return unwrap(api.GET("/api/v1/transfers", { params, signal }));
    },
    refetchInterval: 5_000,
  });
}

/** Transfers that run, the newest first. */
export function useRunning() {
  return useInState("running", RUNNING_MAX);
}

/** Transfers that wait or are paused, the newest first. */
export function useWaiting() {
  return useInState("queued,paused", WAITING_MAX);
}

/** Transfers that have not ended, as far as both lists have them. */
export function useActive(): { data: { items: TransferSummary[] } | undefined } {
  const running = useRunning().data;
  const waiting = useWaiting().data;
  return {
    data: running && waiting && { items: [...running.items, ...waiting.items] },
  };
}
