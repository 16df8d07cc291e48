/** Who has asked the site for what, from where, and with which result. */

import { Button, NativeSelect, TextInput } from "@mantine/core";
import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { type Column, DataTable } from "../../../ui/DataTable";
import { EmptyState } from "../../../ui/EmptyState";
import { useFilters } from "../../../ui/filters";
import { formatCount, shortId } from "../../../ui/format";
import { IconAudit } from "../../../ui/icons";
import { LinkTo } from "../../../ui/LinkTo";
import { Loading } from "../../../ui/Loaded";
import { PageHeader } from "../../../ui/PageHeader";
import { Panel } from "../../../ui/Panel";
import { ProblemBox } from "../../../ui/ProblemBox";
import { Moment } from "../../../ui/Quantity";
import { type Tone, ToneBadge } from "../../../ui/StateBadge";
import classes from "./AuditPage.module.css";

type Entry = Schemas["AuditEntry"];
type Result = Schemas["AuditResultInput"];

/** Lines that are fetched at a time. */
const PART = 200;

const NONE = { actor: "", action: "", object: "", result: "", since: "", until: "" };

/** Returns the selection as the API takes it. */
function queryOf(filters: typeof NONE) {
  const text = (value: string) => (value.trim() === "" ? undefined : value.trim());
  const time = (value: string) => (value === "" ? undefined : new Date(value).toISOString());
  return {
    actor: text(filters.actor),
    action: text(filters.action),
    object: text(filters.object),
    result: text(filters.result) as Result | undefined,
    since: time(filters.since),
    until: time(filters.until),
  };
}

function useAudit(filters: typeof NONE) {
  return useInfiniteQuery({
    queryKey: keys.audit(filters),
    initialPageParam: "",
    placeholderData: keepPreviousData,
    queryFn: ({ pageParam, signal }) => {
      const cursor = pageParam === "" ? undefined : pageParam;
      const query = { ...queryOf(filters), limit: PART, cursor };
      return unwrap(api.GET("/api/v1/audit", { params: { query }, signal }));
    },
    getNextPageParam: (part) => part.next,
  });
}

export function AuditPage() {
  const [filters, setFilter, clear] = useFilters(NONE);
  const audit = useAudit(filters);
  const rows = useMemo(() => audit.data?.pages.flatMap((part) => part.items) ?? [], [audit.data]);
  const silent = [...new Set(audit.data?.pages.flatMap((part) => part.silent ?? []))];
  const more = audit.hasNextPage && !audit.isFetchingNextPage && !audit.isError;
  const isFiltered = Object.values(filters).some((value) => value !== "");
  return (
    <>
      <PageHeader title="Audit" subtitle="Requests that changed something, or were refused." />
      <Panel
        title="Log"
        aside={audit.data && `${formatCount(rows.length)}${audit.hasNextPage ? " so far" : ""}`}
        flush
        actions={
          isFiltered && (
            <Button size="compact-sm" variant="default" onClick={clear}>
              Clear the filters
            </Button>
          )
        }
      >
        <Filters filters={filters} setFilter={setFilter} />
        {silent.length > 0 && (
          <p className={classes.silent} role="status">
            Lines of {silent.join(", ")} are missing: no answer.
          </p>
        )}
        {audit.isError && (
          <div className={classes.problem}>
            <ProblemBox error={audit.error} onRetry={() => void audit.refetch()} />
          </div>
        )}
        {audit.isPending ? (
          <Loading lines={8} />
        ) : (
          <DataTable
            label="Audit log"
            rows={rows}
            rowKey={(entry) => `${entry.peer} ${entry.digest}`}
            columns={COLUMNS}
            onEnd={more ? () => void audit.fetchNextPage() : undefined}
            empty={
              audit.hasNextPage ? (
                <Loading />
              ) : (
                <EmptyState
                  icon={IconAudit}
                  title={isFiltered ? "No line fits the filters" : "Nothing was asked for yet"}
                />
              )
            }
          />
        )}
      </Panel>
    </>
  );
}

interface FilterProps {
  filters: typeof NONE;
  setFilter: (part: Partial<typeof NONE>) => void;
}

function Filters({ filters, setFilter }: FilterProps) {
  const text = (name: "actor" | "action" | "object", label: string, placeholder: string) => (
    <TextInput
      size="xs"
      label={label}
      placeholder={placeholder}
      autoComplete="off"
      spellCheck={false}
      value={filters[name]}
      onChange={(event) => setFilter({ [name]: event.currentTarget.value })}
    />
  );
  const time = (name: "since" | "until", label: string) => (
    <TextInput
      size="xs"
      type="datetime-local"
      label={label}
      value={filters[name]}
      onChange={(event) => setFilter({ [name]: event.currentTarget.value })}
    />
  );
  return (
    <div className="filter-bar">
      {text("actor", "User", "anna")}
      {text("action", "Operation", "submit_transfer")}
      {text("object", "Object", "a user, a transfer…")}
      <NativeSelect
        size="xs"
        label="Result"
        value={filters.result}
        onChange={(event) => setFilter({ result: event.currentTarget.value })}
        data={[
          { value: "", label: "all" },
          { value: "done", label: "done" },
          { value: "refused", label: "refused" },
          { value: "failed", label: "failed" },
        ]}
      />
      {time("since", "From")}
      {time("until", "Until")}
    </div>
  );
}

/** A transfer by the begin of its id, as a link; another object by its name. */
function ObjectName({ object }: { object: string }) {
  return /^[0-9a-f]{32}$/.test(object) ? (
    <LinkTo to={`/transfers/${object}`}>{shortId(object)}</LinkTo>
  ) : (
    object
  );
}

/** Returns a way in without the rest of its id: `session 9591dbad`. */
function viaWords(via: string): string {
  return via.replace(/([0-9a-f]{8})[0-9a-f]+$/, "$1");
}

const RESULT: Record<string, Tone> = { done: "ok", refused: "bad", failed: "warn" };

/** Returns an operation in words: `submit_transfer` is `Submit transfer`. */
function actionWords(entry: Entry): string {
  const words = entry.action.replaceAll("_", " ");
  return words === "" ? entry.request : words.charAt(0).toUpperCase() + words.slice(1);
}

const COLUMNS: Column<Entry>[] = [
  { key: "at", header: "Time", width: "180px", cell: (entry) => <Moment at={entry.at} exact /> },
  { key: "actor", header: "User", width: "110px", cell: (entry) => <b>{entry.actor}</b> },
  {
    key: "what",
    header: "What",
    card: "title",
    cell: (entry) => (
      <span title={`${entry.request}\nrequest ${entry.request_id}`}>
        {actionWords(entry)}
        {entry.object !== "" && (
          <span className={classes.object} title={entry.object}>
            <ObjectName object={entry.object} />
          </span>
        )}
      </span>
    ),
  },
  {
    key: "result",
    header: "Result",
    width: "120px",
    cell: (entry) => (
      <span title={`HTTP status ${entry.status}`}>
        <ToneBadge tone={RESULT[entry.result] ?? "dim"} label={entry.result} />
      </span>
    ),
  },
  {
    key: "from",
    header: "From",
    width: "170px",
    cell: (entry) => (
      <span>
        {entry.from}
        <span className={classes.via} title={entry.via}>
          {viaWords(entry.via)}
        </span>
      </span>
    ),
  },
  { key: "peer", header: "Peer", width: "100px", cell: (entry) => entry.peer },
];
