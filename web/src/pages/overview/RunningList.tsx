/** Transfers that run, with how far they are and how fast. */

import { useProgress } from "../../api/live-context";
import type { TransferSummary } from "../../api/queries";
import { settledOf, shareOf } from "../../api/settled";
import { EmptyState } from "../../ui/EmptyState";
import { formatShare } from "../../ui/format";
import { IconTransfers } from "../../ui/icons";
import { LinkTo, useReaches } from "../../ui/LinkTo";
import { FromTo } from "../../ui/Location";
import { Meter } from "../../ui/Meter";
import { Bytes, Duration, Rate } from "../../ui/Quantity";
import { nameOf } from "./attention";
import classes from "./RunningList.module.css";

export function RunningList({ transfers }: { transfers: TransferSummary[] }) {
  const reaches = useReaches();
  if (transfers.length === 0) {
    return (
      <EmptyState
        icon={IconTransfers}
        title="No transfer runs"
        action={reaches("/new") && <LinkTo to="/new">New transfer</LinkTo>}
      />
    );
  }
  return (
    <ul className={classes.list}>
      {transfers.map((transfer) => (
        <Running key={transfer.id} transfer={transfer} />
      ))}
    </ul>
  );
}

function Running({ transfer }: { transfer: TransferSummary }) {
  const told = useProgress(transfer.id);
  const progress = told ?? transfer.progress;
  const { bytes_found, scan_complete, rate_bits_per_s, errors } = progress;
  const settled = settledOf(progress);
  const share = shareOf(progress, "running");
  const left = bytes_found - settled;
  const eta = scan_complete && rate_bits_per_s > 0 ? (left * 8) / rate_bits_per_s : undefined;
  const name = nameOf(transfer);
  const reason = told?.reason || transfer.reason;
  const limit = told?.bottleneck?.text || transfer.bottleneck?.text;
  return (
    <li className={classes.item}>
      <div className={classes.line}>
        <LinkTo to={`/transfers/${transfer.id}`} className={classes.name}>
          {name}
        </LinkTo>
        <span className={classes.rate}>
          <Rate value={rate_bits_per_s} />
        </span>
      </div>
      <div className={classes.way}>
        <FromTo source={transfer.source} target={transfer.target} />
        {transfer.owner && <span className={classes.owner}>{transfer.owner}</span>}
      </div>
      <Meter share={share} label={`Progress of ${name}`} />
      <div className={classes.facts}>
        <span>
          {share !== null && <b>{formatShare(share)} </b>}
          <Bytes value={settled} /> of {!scan_complete && "at least "}
          <Bytes value={bytes_found} />
        </span>
        {eta !== undefined && (
          <span>
            <Duration seconds={eta} /> left
          </span>
        )}
        {errors > 0 && <span className={classes.errors}>{errors} failed</span>}
        {limit ? <span>{limitWords(limit)}</span> : reason && <span>{reason}</span>}
      </div>
    </li>
  );
}

function limitWords(limit: string): string {
  return limit.startsWith("the limit") ? "at its own limit" : `limited by ${limit}`;
}
