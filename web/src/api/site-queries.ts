/** Queries of the pages about the site: stores, peers, queue. */

import { useQuery } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "./client";
import { keys } from "./keys";

export type Site = Schemas["SiteView"];
export type Store = Schemas["StoreView"];
export type SiteStore = Schemas["SiteStoreView"];
export type Peer = Schemas["PeerView"];
export type Queue = Schemas["QueueView"];

/** Stores that this peer has. */
export function useStores() {
  return useQuery({
    queryKey: keys.stores,
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/stores", { signal })),
    refetchInterval: 60_000,
  });
}

/** A store of this site: its state, its room, and the caller's rights in it. */
export function useStore(store: string, enabled = true) {
  return useQuery({
    queryKey: keys.store(store),
    queryFn: ({ signal }) => {
      const path = { store };
      return unwrap(api.GET("/api/v1/stores/{store}", { params: { path }, signal }));
    },
    refetchInterval: 30_000,
    enabled,
  });
}

/** Stores of a paired site that it lets this site use. */
export function useSiteStores(site: string, enabled = true) {
  return useQuery({
    queryKey: keys.pairedStores(site),
    queryFn: ({ signal }) => {
      const path = { site };
      return unwrap(api.GET("/api/v1/sites/{site}/stores", { params: { path }, signal }));
    },
    staleTime: 30_000,
    enabled,
  });
}

export function usePeers() {
  return useQuery({
    queryKey: keys.peers,
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/peers", { signal })),
    refetchInterval: 3_000,
  });
}

export function useQueue(enabled = true) {
  return useQuery({
    queryKey: keys.queue,
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/queue", { signal })),
    refetchInterval: 5_000,
    enabled,
  });
}
