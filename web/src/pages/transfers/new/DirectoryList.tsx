/** The entries of a directory, windowed: a list box that works as in a file manager. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import type { Schemas } from "../../../api/client";
import { formatCount } from "../../../ui/format";
import { IconCheck, IconFile, IconFolder, IconLink, IconUp } from "../../../ui/icons";
import { Loading } from "../../../ui/Loaded";
import { ProblemBox } from "../../../ui/ProblemBox";
import { Bytes, Moment } from "../../../ui/Quantity";
import { type Entry, hasEscapes, useEntries } from "./browse";
import classes from "./DirectoryList.module.css";
import { joined, type PlaceDraft, parentOf } from "./request";

interface Props {
  place: PlaceDraft;
  prefix: string;
  sort: Schemas["EntrySort"];
  /** Names that are chosen; absent where nothing can be. */
  chosen?: string[];
  onChosen?: (names: string[]) => void;
  onOpen: (path: string) => void;
}

const ROW = 34;
/** Rows that `PageUp` and `PageDown` move by. */
const LEAP = 8;

type Row = { up: true } | { up: false; entry: Entry };

export function DirectoryList(props: Props) {
  const { place, prefix, sort } = props;
  const query = useEntries(place, prefix, sort);
  if (query.isError && query.data === undefined) {
    return (
      <div className={classes.state}>
        {place.path !== "" && (
          <button
            type="button"
            className={classes.back}
            onClick={() => props.onOpen(parentOf(place.path))}
          >
            <IconUp size={16} aria-hidden /> Back to the directory above
          </button>
        )}
        <ProblemBox error={query.error} onRetry={() => void query.refetch()} />
      </div>
    );
  }
  if (query.data === undefined) {
    return (
      <div className={classes.state}>
        <Loading lines={5} />
      </div>
    );
  }
  const entries = query.data.pages.flatMap((part) => part.items);
  return (
    <Entries
      {...props}
      key={`${place.site}:${place.store}/${place.path}`}
      entries={entries}
      sorted={query.data.pages.every((part) => part.sorted)}
      more={query.hasNextPage}
      onEnd={() => {
        if (!query.isFetchingNextPage && query.hasNextPage) {
          void query.fetchNextPage();
        }
      }}
      fault={query.isFetchNextPageError ? query.error : null}
    />
  );
}

interface EntriesProps extends Props {
  entries: Entry[];
  sorted: boolean;
  more: boolean;
  onEnd: () => void;
  fault: unknown;
}

function Entries(props: EntriesProps) {
  const { place, prefix, chosen, onChosen, onOpen, entries, more, onEnd } = props;
  const id = useId();
  const frame = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState(0);
  const rows: Row[] = [
    ...(place.path === "" ? [] : [{ up: true } as const]),
    ...entries.map((entry) => ({ up: false, entry }) as const),
  ];
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => frame.current,
    estimateSize: () => ROW,
    overscan: 8,
  });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && last >= rows.length - 20) {
      onEnd();
    }
  }, [last, more, rows.length, onEnd]);
  const active = Math.min(at, rows.length - 1);
  const toggle = (name: string) =>
    onChosen?.(
      chosen?.includes(name) ? chosen.filter((one) => one !== name) : [...(chosen ?? []), name],
    );
  const open = (row: Row | undefined) => {
    if (row === undefined) {
      return;
    }
    if (row.up) {
      onOpen(parentOf(place.path));
    } else if (row.entry.kind === "directory") {
      onOpen(joined(place.path, row.entry.name));
    } else if (chosen !== undefined) {
      toggle(row.entry.name);
    }
  };
  const press = (event: KeyboardEvent) => {
    const row = rows[active];
    const steps: Record<string, number> = {
      ArrowDown: active + 1,
      ArrowUp: active - 1,
      PageDown: active + LEAP,
      PageUp: active - LEAP,
      Home: 0,
      End: rows.length - 1,
    };
    const next = steps[event.key];
    if (next !== undefined) {
      const index = Math.max(0, Math.min(rows.length - 1, next));
      setAt(index);
      virtual.scrollToIndex(index);
    } else if (event.key === "Enter") {
      open(row);
    } else if (event.key === " " && row !== undefined && !row.up && chosen !== undefined) {
      toggle(row.entry.name);
    } else if (event.key === "Backspace" && place.path !== "") {
      onOpen(parentOf(place.path));
    } else {
      return;
    }
    event.preventDefault();
  };
  return (
    <>
      <div
        ref={frame}
        className={classes.frame}
        role="listbox"
        tabIndex={0}
        aria-label={`${chosen === undefined ? "Target" : "Source"}: ${place.store}/${place.path}`}
        aria-multiselectable={chosen !== undefined || undefined}
        aria-activedescendant={rows.length > 0 ? `${id}-${active}` : undefined}
        onKeyDown={press}
      >
        <div role="presentation" style={{ height: virtual.getTotalSize() }}>
          <div role="presentation" style={{ transform: `translateY(${items[0]?.start ?? 0}px)` }}>
            {items.map((item) => {
              const row = rows[item.index] as Row;
              const name = row.up ? ".." : row.entry.name;
              return (
                // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the list box
                <div
                  key={name}
                  id={`${id}-${item.index}`}
                  role="option"
                  aria-selected={!row.up && (chosen?.includes(name) ?? false)}
                  aria-setsize={more ? -1 : rows.length}
                  aria-posinset={item.index + 1}
                  data-active={item.index === active || undefined}
                  className={classes.row}
                  onClick={() => {
                    setAt(item.index);
                    open(row);
                  }}
                >
                  {row.up ? (
                    <Up />
                  ) : (
                    <EntryRow
                      entry={row.entry}
                      isChosen={chosen?.includes(name)}
                      onToggle={() => toggle(name)}
                    />
                  )}
                </div>
              );
            })}
          </div>
        </div>
      </div>
      {props.fault !== null && <ProblemBox error={props.fault} onRetry={onEnd} />}
      <p className={classes.foot}>
        {countWords(entries.length, more, prefix)}
        {!props.sorted && " · in the order of the file system: too many to sort"}
        {chosen !== undefined && chosen.length > 0 && (
          <>
            {" · "}
            <b>{formatCount(chosen.length)} chosen</b>{" "}
            <button type="button" className={classes.clear} onClick={() => onChosen?.([])}>
              Choose none
            </button>
          </>
        )}
      </p>
    </>
  );
}

function countWords(count: number, more: boolean, prefix: string): string {
  if (count === 0 && !more) {
    return prefix === "" ? "The directory is empty" : `No name begins with “${prefix}”`;
  }
  const noun = count === 1 && !more ? "entry" : "entries";
  return `${formatCount(count)} ${more ? "or more " : ""}${noun}`;
}

function Up() {
  return (
    <>
      <span className={classes.tick} />
      <IconUp size={17} aria-hidden className={classes.icon} />
      <span className={classes.name}>Directory above</span>
    </>
  );
}

interface EntryProps {
  entry: Entry;
  /** Absent where nothing can be chosen. */
  isChosen?: boolean;
  onToggle: () => void;
}

function EntryRow({ entry, isChosen, onToggle }: EntryProps) {
  const Icon = { directory: IconFolder, symlink: IconLink }[entry.kind as string] ?? IconFile;
  const note = hasEscapes(entry.name)
    ? "Bytes of this name that are no text are shown as escapes."
    : undefined;
  return (
    <>
      {isChosen === undefined ? (
        <span className={classes.tick} />
      ) : (
        // biome-ignore lint/a11y/noStaticElementInteractions: the row is the element; Space does it
        // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the list box
        <span
          className={classes.tick}
          data-box
          data-testid="tick"
          data-on={isChosen || undefined}
          onClick={(event) => {
            event.stopPropagation();
            onToggle();
          }}
        >
          {isChosen && <IconCheck size={13} stroke={3} aria-hidden />}
        </span>
      )}
      <Icon size={17} aria-hidden className={classes.icon} data-kind={entry.kind} />
      <span className={classes.name} title={note ?? entry.name}>
        {entry.name}
        {entry.kind === "directory" && "/"}
        {entry.target !== undefined && <span className="dim"> → {entry.target}</span>}
      </span>
      <span className={classes.size}>
        {entry.bytes !== undefined && <Bytes value={entry.bytes} />}
      </span>
      <span className={classes.time}>{entry.mtime && <Moment at={entry.mtime} />}</span>
    </>
  );
}
