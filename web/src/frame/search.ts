/** Finds what a search is for: pages, transfers, sites, stores, peers. */

import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../api/client";
import { keys } from "../api/keys";
import { type TransferSummary, useRight, useSites } from "../api/queries";
import { usePeers, useStores } from "../api/site-queries";
import type { PageRoute } from "../routes";
import { formatLocation, shortId } from "../ui/format";
import { IconPeers, IconRight, IconSites, IconStores, IconTransfers } from "../ui/icons";
import { useReaches } from "../ui/LinkTo";
import type { Found } from "./SearchDialog";

/** Most results of a kind. */
export const FOUND_MAX = 8;
/** Time without a key before the daemon is asked, in milliseconds. */
const REST_MS = 200;

/** Returns whether each word of a search is somewhere in a text. */
export function fits(search: string, text: string): boolean {
  const low = text.toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => low.includes(word));
}

/** Pages, as the menu has them. */
export function foundPages(routes: PageRoute[], search: string): Found[] {
  return routes
    .filter((route) => route.menu && fits(search, route.menu.label))
    .map((route) => ({
      key: `page ${route.path}`,
      label: route.menu?.label ?? route.path,
      note: "Page",
      to: route.path,
      icon: route.menu?.icon ?? IconRight,
    }));
}

/** Returns whether a text may be the begin of an id of a transfer. */
export function isIdPart(text: string): boolean {
  return /^[0-9a-f]{4,32}$/i.test(text);
}

/** Returns whether a transfer fits by the begin of its id, or by its label, places and owner. */
export function fitsTransfer(search: string, one: TransferSummary): boolean {
  const { id, label = "", owner = "", state } = one;
  const places = `${formatLocation(one.source)} ${formatLocation(one.target)}`;
  const isId = isIdPart(search) && id.startsWith(search.toLowerCase());
  return isId || fits(search, `${label} ${owner} ${state} ${places}`);
}

/** Transfers by their label or id of all that the site has, by their paths among the newest ones. */
function useTransfers(search: string, enabled: boolean): TransferSummary[] {
  const [rested] = useDebouncedValue(search, REST_MS);
  const newest = useQuery({
    queryKey: keys.transferList({ limit: 500 }),
    queryFn: ({ signal }) => {
      const query = { limit: 500 };
      return unwrap(api.GET("/api/v1/transfers", { params: { query }, signal }));
    },
    staleTime: 30_000,
    enabled,
  });
  const labelled = useQuery({
    queryKey: keys.transferList({ label: rested, limit: FOUND_MAX }),
    queryFn: ({ signal }) => {
      const query = { label: rested, limit: FOUND_MAX };
      return unwrap(api.GET("/api/v1/transfers", { params: { query }, signal }));
    },
    enabled: enabled && rested !== "",
  });
  if (!enabled || search === "") {
    return [];
  }
  const among = (newest.data?.items ?? []).filter((one) => fitsTransfer(search, one));
  const all = [...among, ...(labelled.data?.items ?? [])];
  const seen = new Set<string>();
  return all.filter((one) => !seen.has(one.id) && seen.add(one.id)).slice(0, FOUND_MAX);
}

/** Returns results of a kind, by their names. */
function named(
  names: readonly string[],
  search: string,
  kind: Omit<Found, "key" | "label" | "to"> & { to: (name: string) => string },
): Found[] {
  return names
    .filter((name) => search !== "" && fits(search, name))
    .slice(0, FOUND_MAX)
    .map((name) => ({ ...kind, key: `${kind.note} ${name}`, label: name, to: kind.to(name) }));
}

export function useFound(routes: PageRoute[], text: string): Found[] {
  const search = text.trim();
  const reaches = useReaches();
  const sees = useRight("see-transfers");
  const sites = useSites().data?.items ?? [];
  const stores = useStores().data?.items ?? [];
  const peers = usePeers().data?.peers ?? [];
  const own = sites.find((site) => site.own)?.name ?? "";
  const transfers = useTransfers(search, sees).map((one) => ({
    key: `transfer ${one.id}`,
    label: one.label || formatLocation(one.source),
    note: `Transfer ${shortId(one.id)} · ${one.state}`,
    to: `/transfers/${one.id}`,
    icon: IconTransfers,
  }));
  const byId = isIdPart(search) && transfers.length === 0 ? [idResult(search)] : [];
  const others = sites.filter((site) => !site.own).map((site) => site.name);
  return [
    ...foundPages(routes, search),
    ...transfers,
    ...byId,
    ...named(others, search, { note: "Site", icon: IconSites, to: (name) => `/sites/${name}` }),
    ...named(
      stores.map((store) => store.name),
      search,
      { note: "Store", icon: IconStores, to: (name) => `/stores/${own}/${name}` },
    ),
    ...named(
      peers.map((peer) => peer.peer),
      search,
      { note: "Peer", icon: IconPeers, to: () => "/peers" },
    ),
  ].filter((one) => reaches(one.to));
}

/** The daemon finds a transfer by the first digits of its id, an old one too. */
function idResult(id: string): Found {
  return {
    key: `id ${id}`,
    label: id,
    note: "Transfer by its id",
    to: `/transfers/${id.toLowerCase()}`,
    icon: IconTransfers,
  };
}
