/** Transfers that wait, each with its reason. Operators see the order of the whole site. */

import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { keys } from "../../api/keys";
import { type TransferSummary, useRight } from "../../api/queries";
import { EmptyState } from "../../ui/EmptyState";
import { IconClock, IconPause } from "../../ui/icons";
import { LinkTo } from "../../ui/LinkTo";
import { Moment } from "../../ui/Quantity";
import { nameOf } from "./attention";
import classes from "./QueueList.module.css";

/** Lines that are shown. */
const SHOWN = 6;

interface Line {
  id: string;
  name: string;
  why: string;
  start?: string;
  paused: boolean;
}

export function QueueList({ transfers }: { transfers: TransferSummary[] }) {
  const operates = useRight("operate");
  const queue = useQuery({
    queryKey: keys.queue,
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/queue", { signal })),
    enabled: operates && transfers.length > 0,
    refetchInterval: 10_000,
  });
  const lines = linesOf(transfers, queue.data?.transfers ?? []);
  if (lines.length === 0) {
    return <EmptyState icon={IconClock} title="No transfer waits" />;
  }
  return (
    <>
      <ol className={classes.list}>
        {lines.slice(0, SHOWN).map((line) => (
          <li key={line.id} className={classes.item}>
            <span className={classes.icon}>
              {line.paused ? (
                <IconPause size={16} aria-label="paused" />
              ) : (
                <IconClock size={16} aria-label="queued" />
              )}
            </span>
            <div className={classes.words}>
              <LinkTo to={`/transfers/${line.id}`} className={classes.name}>
                {line.name}
              </LinkTo>
              <p className={classes.why}>
                {line.why}
                {line.start && (
                  <>
                    {" "}
                    · starts <Moment at={line.start} />
                  </>
                )}
              </p>
            </div>
          </li>
        ))}
      </ol>
      {lines.length > SHOWN && (
        <p className={classes.more}>
          <LinkTo to="/queue">{lines.length - SHOWN} more</LinkTo>
        </p>
      )}
    </>
  );
}

interface Entry {
  id: string;
  waiting: { text: string };
  forecast_start?: string;
}

/** In the order of the queue where that is known; those that it does not have come last. */
function linesOf(transfers: TransferSummary[], entries: readonly Entry[]): Line[] {
  const places = new Map(entries.map((entry, place) => [entry.id, { entry, place }]));
  const placeOf = (id: string) => places.get(id)?.place ?? Number.POSITIVE_INFINITY;
  return transfers
    .toSorted((a, b) => {
      const [x, y] = [placeOf(a.id), placeOf(b.id)];
      return x === y ? a.created_at.localeCompare(b.created_at) : x - y;
    })
    .map((one) => ({
      id: one.id,
      name: nameOf(one),
      why: whyOf(one),
      start: places.get(one.id)?.entry.forecast_start,
      paused: one.state === "paused",
    }));
}

function whyOf({ state, waiting, reason }: TransferSummary): string {
  if (state === "paused" && waiting?.on?.kind === "user") {
    return `Paused by ${waiting.on.name}`;
  }
  const text = waiting?.text || reason;
  return text === "" ? state : `Waits for ${text}`;
}
