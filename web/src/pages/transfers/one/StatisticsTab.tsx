/** How the figures of a transfer were spread over its seconds, as the peers of this site saw them. */

import { Button, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { DataTable } from "../../../ui/DataTable";
import { EmptyState } from "../../../ui/EmptyState";
import { formatBytes, formatCount, formatDuration } from "../../../ui/format";
import { IconRate } from "../../../ui/icons";
import { Loaded } from "../../../ui/Loaded";
import { Panel } from "../../../ui/Panel";
import { RateChart } from "../../../ui/RateChart";
import { BoxPlots } from "./BoxPlots";
import { formatFigure, labelOf, ordered } from "./figures";
import classes from "./StatisticsTab.module.css";
import { isEnded, type TransferView } from "./useTransfer";

type PeerStatistics = Schemas["PeerStatistics"];
type PeerSeries = Schemas["PeerSeries"];

const RATES = ["rate_bits_per_s", "total_rate_bits_per_s"];
/** Processors that are shown at first; those with the greatest mean. */
const CORES_SHOWN = 16;
/** Seconds between two looks while it runs. */
const LOOK_S = 5;

export function StatisticsTab({ view }: { view: TransferView }) {
  const refetchInterval = isEnded(view) ? (false as const) : LOOK_S * 1_000;
  const path = { id: view.id };
  const statistics = useQuery({
    queryKey: keys.statistics(view.id),
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/v1/transfers/{id}/statistics", { params: { path }, signal })),
    refetchInterval,
  });
  const series = useQuery({
    queryKey: keys.series(view.id),
    queryFn: ({ signal }) => {
      const query = { columns: RATES.join(), format: "json" as const };
      return unwrap(
        api.GET("/api/v1/transfers/{id}/series", { params: { path, query }, signal }),
      ) as Promise<Schemas["TransferSeries"]>;
    },
    refetchInterval,
  });
  return (
    <Loaded query={statistics} lines={8}>
      {({ peers, silent }) => (
        <>
          {silent.length > 0 && (
            <p className={classes.silent}>
              {silent.join(", ")} did not answer: what was seen there is missing.
            </p>
          )}
          {peers.length === 0 ? (
            <EmptyState icon={IconRate} title="There are no figures of it yet">
              Each peer of this site keeps its figures of every second while it works for a
              transfer. None has done so for a whole second, or it is too long ago.
            </EmptyState>
          ) : (
            <Peers peers={peers} series={series.data?.peers ?? []} />
          )}
        </>
      )}
    </Loaded>
  );
}

function Peers({ peers, series }: { peers: PeerStatistics[]; series: PeerSeries[] }) {
  const [chosen, choose] = useState<string | null>(null);
  const peer = peers.find((one) => one.peer === chosen) ?? peers[0];
  if (peer === undefined) {
    return null;
  }
  return (
    <div className={classes.column}>
      {peers.length > 1 && (
        <NativeSelect
          className={classes.peer}
          label="Peer"
          data={peers.map((one) => one.peer)}
          value={peer.peer}
          onChange={(event) => choose(event.currentTarget.value)}
        />
      )}
      <History series={series.find((one) => one.peer === peer.peer)} />
      <Rates peer={peer} />
      <Cores key={peer.peer} peer={peer} />
      <Figures peer={peer} />
      <Energy peer={peer} />
    </div>
  );
}

function History({ series }: { series: PeerSeries | undefined }) {
  if (series === undefined || series.at.length === 0) {
    return null;
  }
  const colors = ["--ps-chart-in", "--ps-chart-out"];
  const lines = RATES.flatMap((name, at) => {
    const column = series.columns.find((one) => one.name === name);
    const color = colors[at] ?? "--ps-chart-within";
    return column === undefined ? [] : [{ label: labelOf(name), values: column.mean, color }];
  });
  return (
    <Panel title="Rate over time" aside={`${series.peer}, its own record`}>
      <RateChart label="Rate over time" at={series.at} lines={lines} height={180} span={30} />
    </Panel>
  );
}

function Rates({ peer }: { peer: PeerStatistics }) {
  const rates = ordered(peer.columns).filter((one) => one.name.endsWith("_bits_per_s"));
  const top = Math.max(...rates.map((one) => one.spread.max), 1);
  return (
    <Panel title="How the rates were spread">
      <BoxPlots
        label="Rates, over all seconds"
        rows={rates.map(({ name, spread }) => ({ name: labelOf(name), spread }))}
        top={top}
        format={(value) => formatFigure("rate_bits_per_s", value)}
      />
    </Panel>
  );
}

function Cores({ peer }: { peer: PeerStatistics }) {
  const [all, showAll] = useState(false);
  const busiest = [...peer.cores].sort((a, b) => b.busy_percent.mean - a.busy_percent.mean);
  const shown = all ? peer.cores : busiest.slice(0, CORES_SHOWN).sort((a, b) => a.core - b.core);
  if (shown.length === 0) {
    return null;
  }
  const more = peer.cores.length - shown.length;
  return (
    <Panel title="How busy each processor was" aside={formatCount(peer.cores.length)}>
      <BoxPlots
        label="Busy time of each processor, over all seconds"
        rows={shown.map((one) => ({ name: `CPU ${one.core}`, spread: one.busy_percent }))}
        top={100}
        format={(value) => `${Math.round(value)} %`}
        color="--ps-chart-out"
      />
      {more > 0 && (
        <Button variant="subtle" size="compact-sm" onClick={() => showAll(true)}>
          Show {formatCount(more)} that were less busy
        </Button>
      )}
    </Panel>
  );
}

function Figures({ peer }: { peer: PeerStatistics }) {
  type Row = PeerStatistics["columns"][number];
  const quantile = (key: "min" | "q1" | "median" | "q3" | "p95" | "max" | "mean") => (row: Row) =>
    formatFigure(row.name, row.spread[key]);
  const column = (header: string, key: Parameters<typeof quantile>[0]) => ({
    key,
    header,
    cell: quantile(key),
    align: "right" as const,
  });
  const seconds = Math.max(...peer.columns.map((one) => one.spread.seconds), 0);
  return (
    <Panel title="All figures" aside={formatDuration(seconds)} flush>
      <DataTable<Row>
        label="All figures, over all seconds"
        rows={ordered(peer.columns)}
        rowKey={(row) => row.name}
        columns={[
          { key: "name", header: "Figure", cell: (row) => labelOf(row.name), card: "title" },
          column("Least", "min"),
          column("25 %", "q1"),
          column("Median", "median"),
          column("75 %", "q3"),
          column("95 %", "p95"),
          column("Greatest", "max"),
          column("Mean", "mean"),
        ]}
      />
    </Panel>
  );
}

function joules(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : `${formatCount(Math.round(value))} J`;
}

function Energy({ peer }: { peer: PeerStatistics }) {
  const { is_available, why, ciphers } = peer.energy;
  return (
    <Panel title="Energy">
      {!is_available && (
        <p className={classes.plain}>
          It is not measurable on {peer.peer}: {why}.
        </p>
      )}
      {is_available && ciphers.length === 0 && (
        <p className={classes.plain}>It was not measured while the transfer ran.</p>
      )}
      {ciphers.map((one) => (
        <p key={one.cipher} className={classes.plain}>
          Processors <b>{joules(one.package_joules)}</b>, memory <b>{joules(one.dram_joules)}</b>,
          for {formatBytes(one.bytes)} under {one.cipher || "an unknown cipher"}:{" "}
          <b>{joules(one.package_joules_per_tib)}</b> and <b>{joules(one.dram_joules_per_tib)}</b>{" "}
          for each TiB, of the whole host.
          {one.shared_seconds > 0 &&
            ` Other transfers ran in ${formatDuration(one.shared_seconds)} of it.`}
        </p>
      ))}
    </Panel>
  );
}
