/** Queries that more than one page uses. */

import { useQuery } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "./client";
import { keys } from "./keys";

export type Me = Schemas["MeView"];
export type TransferSummary = Schemas["TransferSummary"];

/** States of a transfer that has not ended. */
export const ACTIVE_STATES = "running,queued,paused";
/** Most active transfers that the frame and the overview look at. */
export const ACTIVE_MAX = 200;

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

/** Transfers that run, wait or are paused, the newest first. */
export function useActive() {
  return useQuery({
    queryKey: keys.active,
    queryFn: ({ signal }) => {
      const query = { state: ACTIVE_STATES, limit: ACTIVE_MAX } as never;
      return unwrap(api.GET("/api/v1/transfers", { params: { query }, signal }));
    },
    refetchInterval: 5_000,
  });
}
