/** One transfer: fetched every few seconds while it has not ended, and live by the stream. */

import { useQuery } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { useLive, useLiveSource, useProgress } from "../../../api/live-context";
import { ENDED_STATES } from "../../../api/queries";
import type { Series } from "../../../api/series";

export type TransferView = Schemas["TransferView"];

export function isEnded(transfer: { state: string }): boolean {
  return ENDED_STATES.has(transfer.state);
}

export function useTransferQuery(id: string) {
  return useQuery({
    queryKey: keys.transfer(id),
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/v1/transfers/{id}", { params: { path: { id } }, signal })),
    refetchInterval: ({ state }) => (state.data && isEnded(state.data) ? 60_000 : 3_000),
  });
}

/** Returns the transfer with the figures of the newest event over those that were fetched. */
export function useFreshView(view: TransferView): TransferView {
  const told = useProgress(view.id);
  // An end that was fetched is newer than an event of a run; `retry` tells of itself.
  if (told === undefined || (isEnded(view) && !isEnded(told))) {
    return view;
  }
  const { state, reason, durable_by } = told;
  const same = state === view.state;
  return {
    ...view,
    state,
    reason: reason || (same ? view.reason : ""),
    durable_by: durable_by || view.durable_by,
    waiting: same ? view.waiting : undefined,
    progress: { ...view.progress, ...told },
    bottleneck: same && told.bottleneck ? told.bottleneck : view.bottleneck,
  };
}

/** The rate of a transfer as far as the page has seen it. */
export function useSeries(view: TransferView): Series {
  const live = useLiveSource();
  const { contact } = useLive();
  const told = useProgress(view.id);
  const { rate_bits_per_s, seconds } = view.progress;
  const running = view.state === "running";
  // biome-ignore lint/correctness/useExhaustiveDependencies: each answer is a sample, if it is alike
  useEffect(() => {
    // The stream does not tell of transfers that another site owns.
    if (told === undefined && contact !== "lost" && !isEnded(view)) {
      live.series.note(view.id, Date.now() / 1_000, running ? rate_bits_per_s : null);
    }
  }, [live, view.id, seconds, rate_bits_per_s, running]);
  return useSyncExternalStore(live.subscribe, () => live.series.of(view.id));
}
