/** The entries of a directory, fetched part by part as they come into view. */

import { Checkbox } from "@mantine/core";
import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { type KeyboardEvent, type ReactNode, useMemo } from "react";
import { Link } from "wouter";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { useStatus } from "../../../api/queries";
import { type Column, DataTable, ROWS_MAX } from "../../../ui/DataTable";
import { formatCount } from "../../../ui/format";
import { IconFile, IconFolder, IconOther, IconSymlink } from "../../../ui/icons";
import { Loading } from "../../../ui/Loaded";
import { ProblemBox } from "../../../ui/ProblemBox";
import { Bytes, Moment } from "../../../ui/Quantity";
import classes from "./BrowserPage.module.css";
import { below, browseAt } from "./place";

export type Entry = Schemas["EntryView"];
export type Sort = Schemas["EntrySort"];

export interface Choice {
  isDirectory: boolean;
  bytes: number;
}

/** Entries that are fetched at a time. */
const PART = 1_000;

interface Props {
  site: string;
  store: string;
  path: string;
  sort: Sort;
  prefix: string;
  chosen: ReadonlyMap<string, Choice>;
  setChosen: (chosen: ReadonlyMap<string, Choice>) => void;
  empty: ReactNode;
}

function useEntries({ site, store, path, sort, prefix }: Props) {
  const own = useStatus().data?.site.name;
  const choice = { path, sort, prefix };
  return useInfiniteQuery({
    queryKey: keys.entries({ site, store, ...choice }),
    enabled: own !== undefined,
    initialPageParam: "",
    placeholderData: keepPreviousData,
    queryFn: ({ pageParam, signal }) => {
      const cursor = pageParam === "" ? undefined : pageParam;
      const query = { ...choice, limit: PART, cursor };
      if (own === site) {
        const params = { path: { store }, query };
        return unwrap(api.GET("/api/v1/stores/{store}/entries", { params, signal }));
      }
      const params = { path: { site, store }, query };
      return unwrap(api.GET("/api/v1/sites/{site}/stores/{store}/entries", { params, signal }));
    },
    getNextPageParam: (part) => part.next,
  });
}

export function EntryTable(props: Props) {
  const { site, chosen, setChosen, empty } = props;
  const query = useEntries(props);
  const rows = useMemo(() => query.data?.pages.flatMap((part) => part.items) ?? [], [query.data]);
  const toggle = (entry: Entry) => {
    const next = new Map(chosen);
    if (!next.delete(entry.name)) {
      const isDirectory = entry.kind === "directory";
      next.set(entry.name, { isDirectory, bytes: entry.bytes ?? 0 });
    }
    setChosen(next);
  };
  if (query.isPending) {
    return <Loading lines={6} />;
  }
  const unsorted = query.data?.pages.some((part) => !part.sorted);
  const isFull = query.hasNextPage && rows.length >= ROWS_MAX;
  const more = query.hasNextPage && !isFull && !query.isFetchingNextPage && !query.isError;
  return (
    <>
      {query.isError && (
        <div className={classes.problem}>
          <ProblemBox error={query.error} onRetry={() => void query.refetch()} />
        </div>
      )}
      {unsorted && (
        <p className={classes.note}>
          The directory is too wide, or its store too slow, to be sorted: entries come in the order
          of the file system.
        </p>
      )}
      {query.data && (
        // biome-ignore lint/a11y/noStaticElementInteractions: the keys move between its links
        <div onKeyDown={moveFocus}>
          <DataTable
            label={`Entries of ${site}:${props.store}/${props.path}`}
            columns={columns(props, toggle)}
            rows={rows}
            rowKey={(entry) => entry.name}
            isMarked={(entry) => chosen.has(entry.name)}
            empty={query.hasNextPage ? <Loading /> : empty}
            onEnd={more ? () => void query.fetchNextPage() : undefined}
          />
        </div>
      )}
      {rows.length > 0 && (
        <p className={classes.count} aria-live="polite">
          {isFull && "The first "}
          {formatCount(rows.length)} {rows.length === 1 ? "entry" : "entries"}
          {isFull && ". Type how a name begins to see others."}
          {query.hasNextPage && !isFull && " so far"}
        </p>
      )}
    </>
  );
}

function columns(props: Props, toggle: (entry: Entry) => void): Column<Entry>[] {
  return [
    {
      key: "name",
      header: "Name",
      card: "title",
      cell: (entry) => <Name entry={entry} toggle={toggle} {...props} />,
    },
    {
      key: "size",
      header: "Size",
      align: "right",
      width: "110px",
      cell: (entry) => (entry.bytes === undefined ? "–" : <Bytes value={entry.bytes} />),
    },
    {
      key: "mtime",
      header: "Changed",
      width: "120px",
      cell: (entry) => (entry.mtime === undefined ? "–" : <Moment at={entry.mtime} />),
    },
    {
      key: "owner",
      header: "Owner",
      card: "hidden",
      width: "150px",
      cell: ({ owner }) => (owner ? `${owner.user ?? owner.uid}:${owner.group ?? owner.gid}` : "–"),
    },
    {
      key: "mode",
      header: "Mode",
      width: "80px",
      card: "hidden",
      cell: (entry) => <code>{entry.mode ?? "–"}</code>,
    },
  ];
}

const ICONS: Record<string, typeof IconFile> = {
  file: IconFile,
  directory: IconFolder,
  symlink: IconSymlink,
};

interface NameProps extends Omit<Props, "empty"> {
  entry: Entry;
  toggle: (entry: Entry) => void;
}

function Name({ entry, toggle, chosen, site, store, path }: NameProps) {
  const Icon = ICONS[entry.kind] ?? IconOther;
  return (
    <span className={classes.name} data-kind={entry.kind}>
      <Checkbox
        size="xs"
        aria-label={`Choose ${entry.name}`}
        checked={chosen.has(entry.name)}
        onChange={() => toggle(entry)}
      />
      <Icon size={18} stroke={1.6} aria-label={entry.kind} />
      {entry.kind === "directory" ? (
        <Link href={browseAt(site, store, below(path, entry.name))}>{entry.name}</Link>
      ) : (
        <span className={classes.word}>{entry.name}</span>
      )}
      {entry.target !== undefined && <span className={classes.target}>→ {entry.target}</span>}
    </span>
  );
}

/** Moves between rows by the arrow keys, as file managers do. */
function moveFocus(event: KeyboardEvent<HTMLDivElement>): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined) {
    return;
  }
  const boxes = [...event.currentTarget.querySelectorAll<HTMLElement>("input[type=checkbox]")];
  const row = (event.target as HTMLElement).closest("tr");
  const at = boxes.findIndex((box) => box.closest("tr") === row);
  const next = boxes[at + step];
  if (next) {
    event.preventDefault();
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }
}
