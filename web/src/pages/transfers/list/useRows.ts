/** The rows of the list: parts as they are scrolled to, and the first part anew. */

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { useProgress } from "../../../api/live-context";
import type { TransferSummary } from "../../../api/queries";
import { settledOf } from "../../../api/settled";
import { type Filter, mergedRows, queryOf } from "./filter";

/** Transfers of the first part, which is fetched anew when one changes its state. */
const HEAD = 100;
/** Transfers of the later parts. */
const PART = 500;

function fetchPart(query: object, signal: AbortSignal) {
  return unwrap(api.GET("/api/v1/transfers", { params: { query: query as never }, signal }));
}

export function useRows(filter: Filter) {
  const query = queryOf(filter, Date.now());
  const head = useQuery({
    queryKey: keys.transferList({ ...query, limit: HEAD }),
    queryFn: ({ signal }) => fetchPart({ ...query, limit: HEAD }, signal),
    refetchInterval: 15_000,
    placeholderData: (before) => before,
  });
  const isLong = head.data?.next !== undefined && !head.isPlaceholderData;
  const parts = useInfiniteQuery({
    queryKey: keys.transferParts(query),
    initialPageParam: "",
    queryFn: ({ pageParam, signal }) => {
      const cursor = pageParam === "" ? {} : { cursor: pageParam };
      return fetchPart({ ...query, limit: PART, ...cursor }, signal);
    },
    getNextPageParam: (last) => last.next ?? null,
    enabled: isLong,
    // What is older changes by the stream, and the first part by itself.
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    gcTime: 30_000,
  });
  const pages = parts.data?.pages;
  const rows = useMemo(
    () => mergedRows(pages ?? [], head.data, filter.oldest),
    [pages, head.data, filter.oldest],
  );
  return { head, parts, rows, isLong };
}

/** A row with what the stream has told since it was fetched. */
export function useFresh(row: TransferSummary): TransferSummary {
  const told = useProgress(row.id);
  if (told === undefined) {
    return row;
  }
  const { eta_seconds } = row.progress;
  const sameState = told.state === row.state;
  return {
    ...row,
    state: told.state,
    reason: told.reason || (sameState ? row.reason : ""),
    waiting: sameState ? row.waiting : undefined,
    failures: { count: Math.max(row.failures.count, sameState ? told.errors : 0) },
    progress: { ...told, bytes_settled: settledOf(told), eta_seconds },
  };
}
