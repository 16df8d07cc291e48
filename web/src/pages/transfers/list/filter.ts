/** The filter of the list, as the address of the page has it. */

import type { TransferSummary } from "../../../api/queries";

export interface Filter {
  states: string[];
  attention: boolean;
  label: string;
  site: string;
  store: string;
  owner: string;
  /** `1d`, `7d`, `30d`, or empty for all times. */
  since: string;
  oldest: boolean;
}

export const STATES = ["running", "queued", "paused", "done", "failed", "cancelled"] as const;

export const TIMES: Record<string, [number, string]> = {
  "1d": [1, "last day"],
  "7d": [7, "last 7 days"],
  "30d": [30, "last 30 days"],
};

export function filterOf(search: string): Filter {
  const query = new URLSearchParams(search);
  const text = (name: string) => query.get(name) ?? "";
  return {
    states: text("state")
      .split(",")
      .filter((state) => state !== ""),
    attention: text("attention") === "true",
    label: text("label"),
    site: text("site"),
    store: text("store"),
    owner: text("owner"),
    since: Object.hasOwn(TIMES, text("since")) ? text("since") : "",
    oldest: text("sort") === "created",
  };
}

/** Returns the address of a filter; that of none is `/transfers`. */
export function addressOf(filter: Filter): string {
  const query = new URLSearchParams();
  const put = (name: string, value: string) => value !== "" && query.set(name, value);
  put("state", filter.states.join(","));
  put("attention", filter.attention ? "true" : "");
  put("label", filter.label);
  put("site", filter.site);
  put("store", filter.store);
  put("owner", filter.owner);
  put("since", filter.since);
  put("sort", filter.oldest ? "created" : "");
  const text = query.toString().replaceAll("%2C", ",");
  return text === "" ? "/transfers" : `/transfers?${text}`;
}

/** Returns the filter as the API takes it. `now` is in milliseconds since 1970. */
export function queryOf(filter: Filter, now: number): Record<string, string | number | boolean> {
  const days = TIMES[filter.since]?.[0];
  const midnight = Math.floor(now / 86_400_000) * 86_400_000;
  return {
    ...(filter.states.length > 0 ? { state: filter.states.join(",") } : {}),
    ...(filter.attention ? { attention: true } : {}),
    ...(filter.label !== "" ? { label: filter.label } : {}),
    ...(filter.site !== "" ? { site: filter.site } : {}),
    ...(filter.store !== "" ? { store: filter.store } : {}),
    ...(filter.owner !== "" ? { owner: filter.owner } : {}),
    // From a midnight on, so that the same list has the same key for a day.
    ...(days === undefined ? {} : { since: new Date(midnight - days * 86_400_000).toISOString() }),
    ...(filter.oldest ? { sort: "created" } : {}),
  };
}

export interface Chip {
  key: string;
  text: string;
  without: Partial<Filter>;
}

/** Returns the parts of a filter in words, each with the filter that lacks it. */
export function chipsOf(filter: Filter): Chip[] {
  const chips: Chip[] = filter.states.map((state) => ({
    key: `state ${state}`,
    text: state,
    without: { states: filter.states.filter((one) => one !== state) },
  }));
  if (filter.attention) {
    chips.push({ key: "attention", text: "needs attention", without: { attention: false } });
  }
  for (const name of ["label", "site", "store", "owner"] as const) {
    if (filter[name] !== "") {
      chips.push({ key: name, text: `${name}: ${filter[name]}`, without: { [name]: "" } });
    }
  }
  if (filter.since !== "") {
    const text = TIMES[filter.since]?.[1] ?? filter.since;
    chips.push({ key: "since", text, without: { since: "" } });
  }
  return chips;
}

interface Part {
  items: readonly TransferSummary[];
  next?: string;
}

/**
 * Returns the rows of a list: the parts that were scrolled to, with the newest first part over
 * them. Where the first part is the whole list, it is the list.
 */
export function mergedRows(
  parts: readonly Part[],
  head: Part | undefined,
  oldest: boolean,
): TransferSummary[] {
  if (head !== undefined && head.next === undefined) {
    return [...head.items];
  }
  const fresh = new Map(head?.items.map((row) => [row.id, row]));
  const rows: TransferSummary[] = [];
  const seen = new Set<string>();
  for (const part of parts) {
    for (const row of part.items) {
      if (!seen.has(row.id)) {
        seen.add(row.id);
        rows.push(fresh.get(row.id) ?? row);
      }
    }
  }
  const added = (head?.items ?? []).filter((row) => !seen.has(row.id));
  // Where the oldest come first, a new one is at the end, which is scrolled to or not.
  return oldest ? rows : [...added, ...rows];
}
