/** All transfers that the caller may see: filtered, chosen, steered, live. */

import { Button, Checkbox } from "@mantine/core";
import { useCallback, useMemo, useState } from "react";
import { useLocation, useSearch } from "wouter";
import { useLiveSource } from "../../../api/live-context";
import { type TransferSummary, useMe, useRight } from "../../../api/queries";
import { type Column, DataTable, ROWS_MAX } from "../../../ui/DataTable";
import { EmptyState } from "../../../ui/EmptyState";
import { formatCount } from "../../../ui/format";
import { IconNew, IconTransfers } from "../../../ui/icons";
import { LinkTo, useReaches } from "../../../ui/LinkTo";
import { Loaded } from "../../../ui/Loaded";
import { PageHeader } from "../../../ui/PageHeader";
import { Panel } from "../../../ui/Panel";
import { ProblemBox } from "../../../ui/ProblemBox";
import { nameOf } from "../../overview/attention";
import { ActionMenu } from "../ActionMenu";
import { useSteer } from "../steer";
import { BulkBar } from "./BulkBar";
import { NameCell, ProgressCell, RateCell, StateCell, TimeCell } from "./cells";
import { FilterBar } from "./FilterBar";
import { addressOf, chipsOf, type Filter, filterOf } from "./filter";
import classes from "./TransfersPage.module.css";
import { useFresh, useRows } from "./useRows";
import { ViewMenu } from "./ViewMenu";

/** Rows that one tick chooses at most: what is done to them is done by id. */
const CHOICE_MAX = 5_000;

export function TransfersPage() {
  const filter = filterOf(useSearch());
  const [, navigate] = useLocation();
  const reaches = useReaches();
  const maySteer = useRight("steer");
  const live = useLiveSource();
  const steer = useSteer();
  const { head, parts, rows, isLong } = useRows(filter);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const onFilter = (next: Filter) => {
    setChosen(new Set());
    navigate(addressOf(next), { replace: true });
  };
  const { fetchNextPage, hasNextPage, isFetching, isError } = parts;
  const isFull = rows.length >= ROWS_MAX;
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFull && !isFetching && !isError) {
      void fetchNextPage();
    }
  }, [fetchNextPage, hasNextPage, isFull, isFetching, isError]);
  const columns = useColumns(rows, chosen, setChosen, maySteer);
  const picked = useMemo(() => rows.filter((row) => chosen.has(row.id)), [rows, chosen]);
  const owners = useOwners(rows);
  const more = isLong && hasNextPage;
  const count = `${formatCount(rows.length)}${more ? " or more" : ""}`;
  return (
    <>
      <PageHeader
        title="Transfers"
        subtitle={head.data && `${count} ${rows.length === 1 ? "transfer" : "transfers"}`}
        actions={
          <>
            <ViewMenu
              address={addressOf(filter)}
              onOpen={(address) => onFilter(filterOf(address.split("?")[1] ?? ""))}
            />
            {reaches("/new") && (
              <LinkTo to="/new" className={classes.new}>
                <IconNew size={17} aria-hidden /> New transfer
              </LinkTo>
            )}
          </>
        }
      />
      <FilterBar filter={filter} onFilter={onFilter} owners={owners} />
      {picked.length > 0 && (
        <BulkBar
          // What the stream has told decides what fits.
          rows={picked.map((row) => ({
            ...row,
            state: live.progressOf(row.id)?.state ?? row.state,
          }))}
          steer={steer}
          onNone={() => setChosen(new Set())}
        />
      )}
      <Panel title="List of transfers" hidesTitle flush>
        <Loaded query={head} lines={8}>
          {() => (
            <DataTable
              label="Transfers"
              columns={columns}
              rows={rows}
              rowKey={(row) => row.id}
              rowHeight={62}
              isMarked={(row) => chosen.has(row.id)}
              onEnd={isLong ? onEnd : undefined}
              empty={<Nothing filter={filter} onFilter={onFilter} />}
            />
          )}
        </Loaded>
        {parts.isError && (
          <div className={classes.fault}>
            <ProblemBox error={parts.error} onRetry={() => void fetchNextPage()} />
          </div>
        )}
        {more && rows.length > 0 && (
          <p className={classes.more} role="status">
            {isFull
              ? "These are all that fit here: filter to see others."
              : isFetching
                ? "Older transfers are on the way."
                : "Scroll for older transfers."}
          </p>
        )}
      </Panel>
    </>
  );
}

function useOwners(rows: TransferSummary[]): string[] {
  const me = useMe().data?.user;
  return useMemo(() => {
    const names = new Set(rows.slice(0, 1_000).flatMap((row) => row.owner ?? []));
    if (me !== undefined) {
      names.add(me);
    }
    return [...names].sort();
  }, [rows, me]);
}

function useColumns(
  rows: TransferSummary[],
  chosen: ReadonlySet<string>,
  setChosen: (chosen: ReadonlySet<string>) => void,
  maySteer: boolean,
): Column<TransferSummary>[] {
  return useMemo(() => {
    const within = rows.slice(0, CHOICE_MAX);
    const all = within.length > 0 && within.every((row) => chosen.has(row.id));
    const pick: Column<TransferSummary> = {
      key: "pick",
      header: "Choose",
      quiet: true,
      width: "44px",
      card: "hidden",
      head: (
        <Checkbox
          size="xs"
          aria-label="Choose all"
          checked={all}
          indeterminate={!all && chosen.size > 0}
          onChange={() => setChosen(all ? new Set() : new Set(within.map((row) => row.id)))}
        />
      ),
      cell: (row) => (
        <Checkbox
          size="xs"
          aria-label={`Choose ${nameOf(row)}`}
          checked={chosen.has(row.id)}
          onChange={(event) => {
            const next = new Set(chosen);
            if (event.currentTarget.checked) {
              next.add(row.id);
            } else {
              next.delete(row.id);
            }
            setChosen(next);
          }}
        />
      ),
    };
    return [...(maySteer ? [pick] : []), ...COLUMNS];
  }, [rows, chosen, setChosen, maySteer]);
}

const COLUMNS: Column<TransferSummary>[] = [
  {
    key: "name",
    header: "Transfer",
    width: "30%",
    card: "title",
    cell: (row) => <NameCell row={row} />,
  },
  { key: "state", header: "State", width: "20%", cell: (row) => <StateCell row={row} /> },
  { key: "progress", header: "Progress", width: "19%", cell: (row) => <ProgressCell row={row} /> },
  { key: "rate", header: "Rate", align: "right", cell: (row) => <RateCell row={row} /> },
  { key: "time", header: "Time", align: "right", cell: (row) => <TimeCell row={row} /> },
  { key: "owner", header: "Owner", cell: (row) => row.owner ?? <span className="dim">–</span> },
  {
    key: "menu",
    header: "Actions",
    quiet: true,
    width: "52px",
    align: "right",
    card: "corner",
    cell: (row) => <RowMenu row={row} />,
  },
];

function RowMenu({ row }: { row: TransferSummary }) {
  return <ActionMenu transfer={useFresh(row)} />;
}

function Nothing({ filter, onFilter }: { filter: Filter; onFilter: (filter: Filter) => void }) {
  const chips = chipsOf(filter);
  const reaches = useReaches();
  if (chips.length > 0) {
    return (
      <EmptyState
        icon={IconTransfers}
        title="No transfer matches"
        action={
          <Button
            variant="default"
            size="compact-md"
            onClick={() => onFilter({ ...filterOf(""), oldest: filter.oldest })}
          >
            Clear the filter
          </Button>
        }
      >
        {chips.map((chip) => chip.text).join(" · ")}
      </EmptyState>
    );
  }
  return (
    <EmptyState
      icon={IconTransfers}
      title="No transfer yet"
      action={reaches("/new") && <LinkTo to="/new">New transfer</LinkTo>}
    >
      Transfers of this site, and of sites that it is paired with, are listed here.
    </EmptyState>
  );
}
