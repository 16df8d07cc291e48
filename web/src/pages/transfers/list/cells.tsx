/** The cells of the list of transfers. Each follows the stream by itself. */

import type { TransferSummary } from "../../../api/queries";
import { settledOf, shareOf } from "../../../api/settled";
import { formatCount, formatShare, limitWords } from "../../../ui/format";
import { LinkTo } from "../../../ui/LinkTo";
import { FromTo } from "../../../ui/Location";
import { Meter } from "../../../ui/Meter";
import { Bytes, Duration, Moment, Rate } from "../../../ui/Quantity";
import { StateBadge } from "../../../ui/StateBadge";
import { nameOf } from "../../overview/attention";
import classes from "./cells.module.css";
import { useFresh } from "./useRows";

interface Props {
  row: TransferSummary;
}

export function NameCell({ row }: Props) {
  return (
    <div className={`${classes.stack} ${classes.place}`}>
      <LinkTo to={`/transfers/${row.id}`} className={classes.name}>
        {nameOf(row)}
      </LinkTo>
      <span className={classes.way}>
        <FromTo source={row.source} target={row.target} />
      </span>
    </div>
  );
}

/** Why a transfer is in its state, in a few words. */
function whyOf(row: TransferSummary): string {
  const failed = row.failures.count;
  const items = `${formatCount(failed)} ${failed === 1 ? "item" : "items"} failed`;
  switch (row.state) {
    case "running":
      return row.bottleneck ? limitWords(row.bottleneck) : row.reason;
    case "queued":
      return row.waiting ? `waits for ${row.waiting.text}` : row.reason;
    case "paused":
      return row.waiting?.on ? `by ${row.waiting.on.name}` : "";
    default:
      return failed > 0 ? items : row.reason;
  }
}

export function StateCell({ row }: Props) {
  const fresh = useFresh(row);
  const why = whyOf(fresh);
  return (
    <div className={classes.stack}>
      <span>
        <StateBadge state={fresh.state} />
      </span>
      {why !== "" && (
        <span className={classes.why} title={why}>
          {why}
        </span>
      )}
    </div>
  );
}

const TONES: Record<string, "ok" | "warn" | "bad" | "dim"> = {
  done: "ok",
  paused: "warn",
  failed: "bad",
  cancelled: "dim",
  queued: "dim",
};

export function ProgressCell({ row }: Props) {
  const { state, progress } = useFresh(row);
  const { bytes_found, scan_complete } = progress;
  if (bytes_found === 0 && state !== "running") {
    return <span className="dim">{state === "done" ? "nothing to move" : "–"}</span>;
  }
  const share = shareOf(progress, state);
  return (
    <div className={classes.progress}>
      <Meter share={share} label={`Progress of ${nameOf(row)}`} tone={TONES[state] ?? "accent"} />
      <span className={classes.figures}>
        {share !== null && <b>{formatShare(share)}</b>}{" "}
        <span>
          of {!scan_complete && "≥ "}
          <Bytes value={bytes_found} />
        </span>
      </span>
    </div>
  );
}

export function RateCell({ row }: Props) {
  const { state, progress } = useFresh(row);
  return state === "running" ? (
    <Rate value={progress.rate_bits_per_s} />
  ) : (
    <span className="dim">–</span>
  );
}

/** What is left of one that runs, when one has ended, since when the others wait. */
export function TimeCell({ row }: Props) {
  const { state, progress, ended_at, created_at, not_before } = useFresh(row);
  if (state === "running") {
    const left = (progress.bytes_found - settledOf(progress)) * 8;
    const rate = progress.rate_bits_per_s;
    const seconds = progress.scan_complete && rate > 0 ? left / rate : progress.eta_seconds;
    return seconds === undefined ? (
      <span className="dim">–</span>
    ) : (
      <span className="nowrap">
        <Duration seconds={seconds} /> left
      </span>
    );
  }
  if (ended_at !== undefined) {
    return (
      <span className="nowrap">
        ended <Moment at={ended_at} />
      </span>
    );
  }
  if (not_before !== undefined && Date.parse(not_before) > Date.now()) {
    return (
      <span className="nowrap">
        starts <Moment at={not_before} />
      </span>
    );
  }
  return (
    <span className="nowrap">
      since <Moment at={created_at} />
    </span>
  );
}
