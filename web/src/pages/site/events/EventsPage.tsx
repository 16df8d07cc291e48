/** What has happened at the site, the newest first, of all peers together. */

import { Button, NativeSelect, Switch, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { type Column, DataTable } from "../../../ui/DataTable";
import { EmptyState } from "../../../ui/EmptyState";
import { useFilters } from "../../../ui/filters";
import { formatCount, sentence, shortId } from "../../../ui/format";
import { IconDownload, IconEvents } from "../../../ui/icons";
import { LinkTo } from "../../../ui/LinkTo";
import { Loaded } from "../../../ui/Loaded";
import { PageHeader } from "../../../ui/PageHeader";
import { Panel } from "../../../ui/Panel";
import { Moment } from "../../../ui/Quantity";
import { saveText } from "../../../ui/save";
import classes from "./EventsPage.module.css";

type SiteEvent = Schemas["SiteEventView"];

/** Most events that are asked for. */
const EVENTS_MAX = 1_000;
const FOLLOW_MS = 3_000;

export function EventsPage() {
  const [follow, setFollow] = useState(true);
  const [filters, setFilter, clear] = useFilters({ kind: "", peer: "", text: "" });
  const query = { limit: EVENTS_MAX };
  const events = useQuery({
    queryKey: keys.history(query),
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/site/events", { params: { query }, signal })),
    refetchInterval: follow ? FOLLOW_MS : false,
  });
  const all = useMemo(() => [...(events.data?.items ?? [])].reverse(), [events.data]);
  const rows = useMemo(() => all.filter((event) => fits(event, filters)), [all, filters]);
  const save = () =>
    saveText("events.jsonl", rows.map((event) => `${JSON.stringify(event)}\n`).join(""));
  return (
    <>
      <PageHeader
        title="Events"
        subtitle="What has happened at this site."
        actions={
          <Button
            variant="default"
            leftSection={<IconDownload size={17} />}
            disabled={rows.length === 0}
            onClick={save}
          >
            Save as JSON lines
          </Button>
        }
      />
      <Panel
        title="History"
        aside={events.data && countWords(rows.length, all.length)}
        flush
        actions={
          <Switch
            size="sm"
            label="Follow"
            checked={follow}
            onChange={(event) => setFollow(event.currentTarget.checked)}
          />
        }
      >
        <div className="filter-bar">
          <Choice label="Kind" all={all.map(kindOf)} {...{ filters, setFilter }} name="kind" />
          <Choice label="Peer" all={all.map(peerOf)} {...{ filters, setFilter }} name="peer" />
          <TextInput
            size="xs"
            aria-label="Text"
            placeholder="Search in the text"
            value={filters.text}
            onChange={(event) => setFilter({ text: event.currentTarget.value })}
          />
        </div>
        <Loaded query={events} lines={8}>
          {() => (
            <DataTable
              label="Events"
              rows={rows}
              rowKey={(event) =>
                `${event.at} ${event.peer} ${event.kind} ${event.subject} ${event.text}`
              }
              columns={COLUMNS}
              empty={
                <EmptyState
                  icon={IconEvents}
                  title={all.length === 0 ? "Nothing has happened yet" : "No event fits"}
                  action={
                    all.length > 0 && (
                      <Button variant="default" size="xs" onClick={clear}>
                        Clear
                      </Button>
                    )
                  }
                />
              }
            />
          )}
        </Loaded>
      </Panel>
    </>
  );
}

function countWords(shown: number, all: number): string {
  const most = all >= EVENTS_MAX ? `the last ${formatCount(all)}` : formatCount(all);
  return shown === all ? most : `${formatCount(shown)} of ${most}`;
}

function kindOf(event: SiteEvent): string {
  return event.kind;
}

function peerOf(event: SiteEvent): string {
  return event.peer;
}

interface Filters {
  kind: string;
  peer: string;
  text: string;
}

function fits(event: SiteEvent, filters: Filters): boolean {
  const text = `${event.subject} ${event.text} ${event.transfer ?? ""}`.toLowerCase();
  return (
    (filters.kind === "" || event.kind === filters.kind) &&
    (filters.peer === "" || event.peer === filters.peer) &&
    text.includes(filters.text.toLowerCase())
  );
}

interface ChoiceProps {
  label: string;
  name: "kind" | "peer";
  all: string[];
  filters: Filters;
  setFilter: (part: Partial<Filters>) => void;
}

function Choice({ label, name, all, filters, setFilter }: ChoiceProps) {
  const values = [...new Set([...all, filters[name]])].filter(Boolean).sort();
  return (
    <NativeSelect
      size="xs"
      aria-label={label}
      value={filters[name]}
      onChange={(event) => setFilter({ [name]: event.currentTarget.value })}
      data={[
        { value: "", label: `${label}: all` },
        ...values.map((value) => ({ value, label: value })),
      ]}
    />
  );
}

const COLUMNS: Column<SiteEvent>[] = [
  { key: "at", header: "Time", width: "180px", cell: (event) => <Moment at={event.at} exact /> },
  {
    key: "text",
    header: "What",
    card: "title",
    cell: (event) => <span className={classes.text}>{sentence(event.text)}</span>,
  },
  { key: "kind", header: "Kind", width: "150px", cell: (event) => <code>{event.kind}</code> },
  { key: "subject", header: "On", width: "16%", cell: (event) => <Subject event={event} /> },
  { key: "peer", header: "Peer", width: "110px", cell: peerOf },
];

function Subject({ event }: { event: SiteEvent }) {
  const { transfer, subject } = event;
  if (transfer === undefined) {
    return <span className={classes.subject}>{subject}</span>;
  }
  const words = subject === transfer || subject === "" ? shortId(transfer) : subject;
  return (
    <span className={classes.subject}>
      <LinkTo to={`/transfers/${transfer}`}>{words}</LinkTo>
    </span>
  );
}
