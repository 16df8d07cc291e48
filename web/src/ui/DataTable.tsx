/**
 * A table that is a list of cards on a narrow screen. Rows beyond a hundred are windowed: only
 * those near the view are in the document, however many there are.
 */

import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useLayoutEffect, useRef, useState } from "react";
import classes from "./DataTable.module.css";

export interface Column<T> {
  key: string;
  /** The heading; in a card it stands before the value. */
  header: string;
  cell: (row: T) => ReactNode;
  align?: "right";
  /** As CSS has it: `30%`, `120px`. */
  width?: string;
  /**
   * In a card: `title` is its first line, `plain` has no heading, `corner` stands at its upper
   * right, `hidden` is left out.
   */
  card?: "title" | "plain" | "corner" | "hidden";
  /** The heading is for readers of screens only: columns of buttons. */
  quiet?: boolean;
  /** In place of the heading: a box that chooses all rows. */
  head?: ReactNode;
}

interface Props<T> {
  /** What the table lists, for readers of screens. */
  label: string;
  columns: Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  /** Shown in place of an empty table. */
  empty?: ReactNode;
  /** Called when the last rows come into view. */
  onEnd?: () => void;
  /** Height of a row before it is measured, in pixels. */
  rowHeight?: number;
  /** Marks a row, as one that is selected. */
  isMarked?: (row: T) => boolean;
}

/**
 * Rows that a list fetches at most. As cards of 150 pixels they are as high as a browser can show:
 * Firefox ends at 17.9 million pixels, Chromium at 33.5. And they fit in the memory of a tab.
 */
export const ROWS_MAX = 100_000;
/** Rows up to which all are in the document. */
const WHOLE_MAX = 100;

export function DataTable<T>(props: Props<T>) {
  const { rows, empty } = props;
  if (rows.length === 0 && empty !== undefined) {
    return <>{empty}</>;
  }
  return rows.length > WHOLE_MAX ? <Windowed {...props} /> : <Whole {...props} />;
}

function Head<T>({ columns }: Pick<Props<T>, "columns">) {
  return (
    <thead className={classes.head} role="rowgroup">
      <tr role="row">
        {columns.map((column) => (
          <th
            key={column.key}
            role="columnheader"
            scope="col"
            data-align={column.align}
            style={column.width ? { width: column.width } : undefined}
          >
            {column.head ??
              (column.quiet ? (
                <span className={classes.quiet}>{column.header}</span>
              ) : (
                column.header
              ))}
          </th>
        ))}
      </tr>
    </thead>
  );
}

interface RowProps<T> extends Pick<Props<T>, "columns" | "isMarked"> {
  row: T;
  index?: number;
  measure?: (element: HTMLTableRowElement | null) => void;
}

function Row<T>({ row, columns, isMarked, index, measure }: RowProps<T>) {
  return (
    <tr
      role="row"
      className={classes.row}
      ref={measure}
      data-index={index}
      aria-rowindex={index === undefined ? undefined : index + 2}
      data-marked={isMarked?.(row) || undefined}
    >
      {columns.map((column) => (
        <td
          key={column.key}
          role="cell"
          data-align={column.align}
          data-card={column.card}
          data-label={column.card === "plain" || column.quiet ? undefined : column.header}
        >
          {column.cell(row)}
        </td>
      ))}
    </tr>
  );
}

/** Calls `onEnd` when the end of the table comes near the view. */
function End({ onEnd }: { onEnd?: () => void }) {
  const mark = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = mark.current;
    if (element === null || onEnd === undefined) {
      return;
    }
    const watch = new IntersectionObserver(
      (entries) => entries.some((entry) => entry.isIntersecting) && onEnd(),
      { rootMargin: "600px" },
    );
    watch.observe(element);
    return () => watch.disconnect();
  }, [onEnd]);
  return <div ref={mark} />;
}

function Whole<T>({ label, columns, rows, rowKey, onEnd, isMarked }: Props<T>) {
  return (
    <div className={classes.frame}>
      <table className={classes.table} role="table" aria-label={label}>
        <Head columns={columns} />
        <tbody role="rowgroup">
          {rows.map((row) => (
            <Row key={rowKey(row)} row={row} columns={columns} isMarked={isMarked} />
          ))}
        </tbody>
      </table>
      <End onEnd={onEnd} />
    </div>
  );
}

function Windowed<T>(props: Props<T>) {
  const { label, columns, rows, rowKey, onEnd, isMarked, rowHeight = 45 } = props;
  const frame = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    const rect = frame.current?.getBoundingClientRect();
    setTop((rect?.top ?? 0) + window.scrollY);
  }, []);
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => rowHeight,
    overscan: 12,
    scrollMargin: top,
    getItemKey: (index) => rowKey(rows[index] as T),
  });
  const items = virtual.getVirtualItems();
  const before = (items[0]?.start ?? top) - top;
  const after = virtual.getTotalSize() - ((items.at(-1)?.end ?? top) - top);
  return (
    <div className={classes.frame} ref={frame}>
      <table
        className={classes.table}
        role="table"
        aria-label={label}
        aria-rowcount={rows.length + 1}
      >
        <Head columns={columns} />
        <tbody role="rowgroup">
          {before > 0 && <tr aria-hidden className={classes.spacer} style={{ height: before }} />}
          {items.map((item) => (
            <Row
              key={item.key}
              row={rows[item.index] as T}
              index={item.index}
              measure={virtual.measureElement}
              columns={columns}
              isMarked={isMarked}
            />
          ))}
          {after > 0 && <tr aria-hidden className={classes.spacer} style={{ height: after }} />}
        </tbody>
      </table>
      <End onEnd={onEnd} />
    </div>
  );
}
