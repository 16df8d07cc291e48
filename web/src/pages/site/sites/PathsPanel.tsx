/** The paths to a paired site, tested from both ends, and what is wrong with each. */

import { useQuery } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { ActionButton } from "../../../ui/ActionButton";
import { type Column, DataTable } from "../../../ui/DataTable";
import { FindingList } from "../../../ui/FindingList";
import { sentence } from "../../../ui/format";
import { IconReload } from "../../../ui/icons";
import { Loaded } from "../../../ui/Loaded";
import { Panel } from "../../../ui/Panel";
import { Moment, Rate } from "../../../ui/Quantity";
import { type Tone, ToneBadge } from "../../../ui/StateBadge";
import classes from "./SitesPage.module.css";

type Path = Schemas["PathView"];
type Report = Schemas["PairReport"];

export function PathsPanel({ site }: { site: string }) {
  const report = useQuery({
    queryKey: [...keys.site(site), "doctor"],
    queryFn: ({ signal }) => {
      const params = { path: { site } };
      const call = api.GET("/api/v1/sites/{site}/doctor", { params, signal });
      // The client widens pairs to lists of any length.
      return unwrap(call) as Promise<Report>;
    },
    staleTime: 300_000,
    refetchOnWindowFocus: false,
  });
  return (
    <Panel
      title="Paths"
      aside={report.dataUpdatedAt > 0 && <Tested at={report.dataUpdatedAt} />}
      flush
      actions={
        <ActionButton
          size="compact-sm"
          variant="default"
          leftSection={<IconReload size={15} />}
          loading={report.isFetching}
          onClick={() => void report.refetch()}
        >
          Test both ends
        </ActionButton>
      }
    >
      <Loaded query={report} lines={5}>
        {(view) => <ReportView report={view} site={site} />}
      </Loaded>
    </Panel>
  );
}

function Tested({ at }: { at: number }) {
  return (
    <>
      tested <Moment at={at} />
    </>
  );
}

function ReportView({ report, site }: { report: Report; site: string }) {
  const { paths, findings, ours, theirs } = report;
  const peers = [...ours.peers, ...(theirs?.peers ?? [])];
  return (
    <>
      {findings.length > 0 && <FindingList findings={findings} />}
      <h3 className={classes.direction}>From here to {site}</h3>
      <PathTable label={`Paths to ${site}`} paths={paths.outward} />
      <h3 className={classes.direction}>From {site} to here</h3>
      {paths.inward_problem !== "" ? (
        <p className={classes.pad}>{sentence(paths.inward_problem)}</p>
      ) : (
        <PathTable label={`Paths from ${site}`} paths={paths.inward} />
      )}
      <h3 className={classes.direction}>Peers of both sites</h3>
      <DataTable
        label="Peers of both sites"
        rows={peers}
        rowKey={(peer) => peer.peer + peer.capability_key}
        columns={[
          { key: "peer", header: "Peer", card: "title", width: "30%", cell: (peer) => peer.peer },
          { key: "release", header: "Release", cell: (peer) => peer.release },
          {
            key: "expires",
            header: "Certificate ends",
            cell: (peer) => <Moment at={peer.certificate_expires * 1_000} />,
          },
        ]}
      />
    </>
  );
}

function stateOf(path: Path): [Tone, string] {
  if (!path.reachable) {
    return ["bad", "not reached"];
  }
  if (!path.proven) {
    return ["bad", "another certificate"];
  }
  return path.large === "" ? ["ok", "reached"] : ["warn", "small packets only"];
}

const COLUMNS: Column<Path>[] = [
  {
    key: "ends",
    header: "Path",
    card: "title",
    cell: (path) => (
      <>
        {path.peer} → {path.to_peer}
        <span className={classes.why}>
          {path.from} → {path.to}
          {path.network !== "" && ` · ${path.network}`}
        </span>
      </>
    ),
  },
  {
    key: "state",
    header: "Now",
    cell: (path) => {
      const [tone, label] = stateOf(path);
      const why = path.why || path.large;
      return (
        <span>
          <ToneBadge tone={tone} label={label} />
          {why !== "" && <span className={classes.why}>{sentence(why)}</span>}
        </span>
      );
    },
  },
  {
    key: "rtt",
    header: "Round trip",
    align: "right",
    width: "110px",
    cell: (path) => (path.rtt_us === null ? "–" : roundTrip(path.rtt_us)),
  },
  {
    key: "rate",
    header: "Last rate",
    align: "right",
    width: "120px",
    cell: (path) => (path.rate_bits_per_s === null ? "–" : <Rate value={path.rate_bits_per_s} />),
  },
  {
    key: "use",
    header: "In transfers",
    width: "150px",
    cell: (path) => (
      <span>
        {path.state}
        {path.last_failure !== "" && (
          <span className={classes.why}>{sentence(path.last_failure)}</span>
        )}
      </span>
    ),
  },
];

/** Returns a round trip as people read it: `0.12 ms`, `14 ms`. */
function roundTrip(micros: number): string {
  const millis = micros / 1_000;
  return `${millis < 10 ? millis.toFixed(2) : Math.round(millis)} ms`;
}

function PathTable({ label, paths }: { label: string; paths: Path[] }) {
  return (
    <DataTable
      label={label}
      rows={paths}
      rowKey={(path) => `${path.peer} ${path.from} ${path.to_peer} ${path.to}`}
      empty={<p className={classes.pad}>There is no path.</p>}
      columns={COLUMNS}
    />
  );
}
