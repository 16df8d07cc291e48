/** Stores and their directories, at this site and at those that it is paired with. */

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { useRight, useSites } from "../../../api/queries";
import type { PlaceDraft } from "./request";

export type Entry = Schemas["EntryView"];
export type Side = "source" | "target";

export interface StoreChoice {
  name: string;
  /** What it is: a directory, `mem:…`, `null:`; empty for one of another site. */
  place: string;
  read: boolean;
  write: boolean;
}

/** Entries that one request asks for. */
const PART = 500;

/** The own site's name; empty until it is known. */
export function useOwnSite(): string {
  return useSites().data?.items.find((site) => site.own)?.name ?? "";
}

/** The stores of a site, with what transfers of this site may do there. */
export function useStoresOf(site: string) {
  const own = useOwnSite();
  const mayList = useRight("list-stores");
  return useQuery({
    queryKey: keys.siteStores(site),
    queryFn: ({ signal }) => storesOf(site, site === own, signal),
    enabled: site !== "" && own !== "" && mayList,
    staleTime: 15_000,
  });
}

async function storesOf(site: string, own: boolean, signal: AbortSignal): Promise<StoreChoice[]> {
  if (own) {
    const { items } = await unwrap(api.GET("/api/v1/stores", { signal }));
    return items.map(({ name, place, read_only }) => ({
      name,
      place,
      read: place !== "null:",
      write: !read_only && !place.startsWith("mem:"),
    }));
  }
  const params = { path: { site } };
  const { items } = await unwrap(api.GET("/api/v1/sites/{site}/stores", { params, signal }));
  return items.map(({ name, read, write }) => ({ name, place: "", read, write }));
}

/** The entries of a directory, part by part. `prefix` leaves out names that begin otherwise. */
export function useEntries(place: PlaceDraft, prefix: string, sort: Schemas["EntrySort"]) {
  const own = useOwnSite();
  return useInfiniteQuery({
    queryKey: keys.entries({ ...place, prefix, sort }),
    initialPageParam: "",
    queryFn: ({ pageParam, signal }) => {
      const query = {
        path: place.path,
        limit: PART,
        sort,
        ...(prefix === "" ? {} : { prefix }),
        ...(pageParam === "" ? {} : { cursor: pageParam }),
      };
      const { site, store } = place;
      return site === own
        ? unwrap(
            api.GET("/api/v1/stores/{store}/entries", {
              params: { path: { store }, query },
              signal,
            }),
          )
        : unwrap(
            api.GET("/api/v1/sites/{site}/stores/{store}/entries", {
              params: { path: { site, store }, query },
              signal,
            }),
          );
    },
    getNextPageParam: (last) => last.next ?? null,
    enabled: place.store !== "" && own !== "",
    staleTime: 10_000,
  });
}

/** Makes a directory. */
export function makeDirectory(own: string, place: PlaceDraft): Promise<unknown> {
  const { site, store, path } = place;
  const body = { path };
  return site === own
    ? unwrap(api.POST("/api/v1/stores/{store}/directories", { params: { path: { store } }, body }))
    : unwrap(
        api.POST("/api/v1/sites/{site}/stores/{store}/directories", {
          params: { path: { site, store } },
          body,
        }),
      );
}

/** Returns whether a path has escapes: bytes that are no text, or that would hide. */
export function hasEscapes(path: string): boolean {
  return /\\(x[0-9a-f]{2}|[ntr])/.test(path);
}
