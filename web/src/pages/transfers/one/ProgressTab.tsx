/** How far a transfer is and how fast: the rate over time, what is done, in hand and left. */

import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { useRight } from "../../../api/queries";
import { settledOf } from "../../../api/settled";
import { DataTable } from "../../../ui/DataTable";
import { formatBytes, formatCount, formatShare, limitWords } from "../../../ui/format";
import { Loading } from "../../../ui/Loaded";
import { Panel } from "../../../ui/Panel";
import { Bytes, Count, Duration, Rate } from "../../../ui/Quantity";
import { RateChart, type RateLine } from "../../../ui/RateChart";
import { ToneBadge } from "../../../ui/StateBadge";
import classes from "./ProgressTab.module.css";
import { SteerPanel } from "./SteerPanel";
import { TimePanel } from "./TimePanel";
import { isEnded, type TransferView, useSeries } from "./useTransfer";
import { notKeptWords } from "./words";

/** A part of its own: the figures above are there first. */
const PiecePanel = lazy(() =>
  import("./PiecePanel").then((panel) => ({ default: panel.PiecePanel })),
);

export function ProgressTab({ view }: { view: TransferView }) {
  const maySteer = useRight("steer");
  const steers = maySteer && !isEnded(view);
  return (
    <div className={classes.grid} data-one={!steers || undefined}>
      <div className={classes.column}>
        <Panel title="Progress by data">
          <Shares view={view} />
        </Panel>
        <Suspense fallback={<Loading lines={5} />}>
          <PiecePanel view={view} />
        </Suspense>
        <RatePanel view={view} />
        <TimePanel view={view} />
        <Paths view={view} />
      </div>
      <div className={classes.column}>
        {steers && <SteerPanel view={view} />}
        <Details view={view} />
      </div>
    </div>
  );
}

interface Part {
  key: string;
  label: string;
  bytes: number;
}

/** Parts of the data as far as it was found, each in bytes. */
function partsOf({ progress }: TransferView): Part[] {
  const { bytes_durable, bytes_found, bytes_skipped = 0 } = progress;
  const durable = Math.min(bytes_durable, bytes_found - bytes_skipped);
  const hand = Math.max(0, settledOf(progress) - bytes_skipped - durable);
  const kept = { key: "kept", label: "Unchanged at the target", bytes: bytes_skipped };
  return [
    ...(bytes_skipped > 0 ? [kept] : []),
    { key: "durable", label: "Verified and durable", bytes: durable },
    { key: "hand", label: "Verified, not yet durable", bytes: hand },
    {
      key: "left",
      label: "Left",
      bytes: Math.max(0, bytes_found - bytes_skipped - durable - hand),
    },
  ];
}

function Shares({ view }: { view: TransferView }) {
  const parts = partsOf(view);
  const total = view.progress.bytes_found;
  const { scan_complete, errors, files, files_found } = view.progress;
  const words = parts.map((part) => `${part.label}: ${formatBytes(part.bytes)}`).join(", ");
  return (
    <>
      <div className={classes.bar} role="img" aria-label={words}>
        {parts.map((part) => (
          <span
            key={part.key}
            data-part={part.key}
            style={{ flexGrow: total > 0 ? part.bytes / total : part.key === "left" ? 1 : 0 }}
          />
        ))}
        {!scan_complete && !isEnded(view) && <span data-part="open" />}
      </div>
      <ul className={classes.legend}>
        {parts.map((part) => (
          <li key={part.key}>
            <i data-part={part.key} aria-hidden />
            {part.label} <Bytes value={part.bytes} />
            {total > 0 && <span className="dim"> {formatShare(part.bytes / total)}</span>}
          </li>
        ))}
      </ul>
      <p className={classes.twin}>
        <Count value={files} /> of <Count value={files_found} /> files
        {!scan_complete && !isEnded(view) && ", and the source is still being listed"}
        {errors > 0 && `; ${formatCount(errors)} failed`}
        {view.bottleneck && view.state === "running" && (
          <>
            . It runs <b>{limitWords(view.bottleneck)}</b>
          </>
        )}
        .
      </p>
    </>
  );
}

function RatePanel({ view }: { view: TransferView }) {
  const series = useSeries(view);
  const limit = view.limits.rate_bits_per_s;
  const seen = series.at.length;
  if (seen < 2) {
    return isEnded(view) ? null : (
      <Panel title="Rate">
        <p className="dim">The chart begins when the transfer runs, and this page is open.</p>
      </Panel>
    );
  }
  const lines: RateLine[] = [
    { label: "Rate", values: series.rate, color: "--ps-chart-in" },
    ...(typeof limit === "number"
      ? [
          {
            label: "Limit",
            values: series.at.map(() => limit),
            color: "--ps-warn",
            dashed: true,
          },
        ]
      : []),
  ];
  return (
    <Panel title="Rate" aside="as far as this page has seen it">
      <RateChart label="Rate of the transfer" at={series.at} lines={lines} height={200} span={60} />
    </Panel>
  );
}

interface PathRow {
  key: string;
  share: Schemas["TaskLoad"];
  path?: Schemas["TaskPath"];
}

/** The peers that work for it, and the paths over which the data comes. */
function Paths({ view }: { view: TransferView }) {
  const { id } = view;
  const running = view.state === "running";
  const paths = useQuery({
    queryKey: [...keys.transfer(id), "paths"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/v1/transfers/{id}/paths", { params: { path: { id } }, signal })),
    enabled: running,
    refetchInterval: 5_000,
  });
  const shares = paths.data?.shares ?? [];
  if (!running || shares.length === 0) {
    return null;
  }
  const rows: PathRow[] = shares.flatMap((share): PathRow[] =>
    share.paths.length === 0
      ? [{ key: share.peer, share, path: undefined }]
      : share.paths.map((path) => ({ key: `${share.peer} ${path.from} ${path.to}`, share, path })),
  );
  return (
    <Panel title="Peers and paths" flush>
      <DataTable
        label="Peers and paths"
        rows={rows}
        rowKey={(row) => row.key}
        columns={[
          { key: "peer", header: "Peer", card: "title", cell: ({ share }) => share.peer },
          {
            key: "path",
            header: "Path",
            cell: ({ path }) =>
              path ? `${path.from} → ${path.to} (${path.to_peer})` : "within this site",
          },
          {
            key: "state",
            header: "State",
            cell: ({ path }) =>
              path ? (
                <ToneBadge
                  tone={path.state === "carrying" ? "ok" : path.state === "dead" ? "bad" : "dim"}
                  label={path.state}
                />
              ) : (
                "–"
              ),
          },
          {
            key: "lanes",
            header: "Lanes",
            align: "right",
            cell: ({ share, path }) => path?.lanes ?? share.lanes,
          },
          {
            key: "rtt",
            header: "Round trip",
            align: "right",
            cell: ({ path }) =>
              typeof path?.rtt_us === "number" ? `${(path.rtt_us / 1_000).toFixed(1)} ms` : "–",
          },
          {
            key: "rate",
            header: "Rate",
            align: "right",
            cell: ({ share, path }) => (
              <Rate value={path?.rate_bits_per_s ?? share.rate_bits_per_s} />
            ),
          },
        ]}
      />
      {paths.data !== undefined && paths.data.silent.length > 0 && (
        <p className={classes.silent}>No answer from {paths.data.silent.join(", ")}.</p>
      )}
    </Panel>
  );
}

/** Figures that count only where there is something to count. */
function Details({ view }: { view: TransferView }) {
  const { progress } = view;
  const bytes: [string, number][] = [
    ["Resumed", progress.bytes_resumed],
    ["Already at the target", progress.bytes_skipped],
    ["Resent", progress.bytes_resent],
    ["Read back and verified", progress.bytes_read_back],
  ];
  const counts: [string, number][] = [
    ["Entries found", progress.entries_found],
    ["Left as they were", progress.skipped],
    ["Left out by the rules", progress.excluded],
    ["Deleted at the target", progress.deleted],
    ["Removed at the source", progress.removed],
    ["Stayed at the source", progress.stayed],
    ["Pieces repaired", progress.repairs],
    ["Lanes open", view.state === "running" ? progress.lanes : 0],
  ];
  return (
    <Panel title="Details">
      <dl className={classes.details}>
        <dt>Id</dt>
        <dd className="mono">{view.id}</dd>
        <dt>Ran for</dt>
        <dd>
          <Duration seconds={progress.seconds} />
        </dd>
        {bytes
          .filter(([, value]) => value > 0)
          .map(([label, value]) => (
            <Fact key={label} label={label}>
              <Bytes value={value} />
            </Fact>
          ))}
        {counts
          .filter(([, value]) => value > 0)
          .map(([label, value]) => (
            <Fact key={label} label={label}>
              <Count value={value} />
            </Fact>
          ))}
        {view.durable_by !== "" && <Fact label="Durable by">{view.durable_by}</Fact>}
      </dl>
      {progress.not_kept.length > 0 && (
        <div className={classes.lost}>
          <p>Attributes that were not kept; no item has failed by that:</p>
          <ul>
            {progress.not_kept.map((lost) => (
              <li key={`${lost.class} ${lost.why}`}>{notKeptWords(lost)}</li>
            ))}
          </ul>
        </div>
      )}
    </Panel>
  );
}

function Fact({ label, children }: { label: string; children: React.ReactNode }) {
  return (
    <>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </>
  );
}
