/** The piece map: which parts of the data are done, in hand, to be sent again, failed or left. */

import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { formatBytes, formatCount, formatShare } from "../../../ui/format";
import { Loaded } from "../../../ui/Loaded";
import { Panel } from "../../../ui/Panel";
import { Bytes, Moment } from "../../../ui/Quantity";
import classes from "./PiecePanel.module.css";
import {
  background,
  isOld,
  markOf,
  moreFiles,
  type PieceMap,
  SHARES,
  stretchesOf,
  sumOf,
} from "./pieces";
import { isEnded, type TransferView } from "./useTransfer";

/** Cells of the bar; a map has no more buckets. */
const CELLS = 128;
/** Rows of the table. */
const ROWS = 16;
/** Milliseconds between two looks: while it runs, and else. */
const LOOK_MS = 1_000;
const IDLE_LOOK_MS = 15_000;

export function PiecePanel({ view }: { view: TransferView }) {
  const { id, state } = view;
  const query = useQuery({
    // What has ended, or begins, is looked at anew.
    queryKey: [...keys.pieces(id), isEnded(view)],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/v1/transfers/{id}/pieces", { params: { path: { id } }, signal })),
    refetchInterval: isEnded(view) ? false : state === "running" ? LOOK_MS : IDLE_LOOK_MS,
  });
  return (
    <Panel title="Pieces" aside={query.data && <Age map={query.data} />}>
      <Loaded query={query} lines={3}>
        {(map) =>
          map.bytes === 0 ? (
            <Nothing map={map} />
          ) : (
            <Shown map={map} files={view.progress.files_found} />
          )
        }
      </Loaded>
    </Panel>
  );
}

/** How old the map is, where it is not as new as the page. */
function Age({ map: { at, basis } }: { map: PieceMap }) {
  if (basis === "end") {
    return (
      <>
        as its last attempt ended, <Moment at={at} />
      </>
    );
  }
  if (basis === "totals") {
    return <>by its totals: their order is not known</>;
  }
  return (
    <>
      in planned order
      {isOld(at, Date.now()) && (
        <>
          , <Moment at={at} />
        </>
      )}
    </>
  );
}

function Nothing({ map }: { map: PieceMap }) {
  return (
    <p className="dim">
      {map.listed
        ? "The data set has no bytes: there is nothing to show in pieces."
        : "The map begins when the source is listed."}
    </p>
  );
}

function Shown({ map, files }: { map: PieceMap; files: number }) {
  const cells = stretchesOf(map, CELLS);
  const present = SHARES.filter(({ key }) => map.totals[key] > 0);
  const words = present.map(({ key, label }) => `${label}: ${formatBytes(map.totals[key])}`);
  return (
    <div className={classes.pieces}>
      <div className={classes.map} data-open={!map.listed || undefined}>
        <div className={classes.cells} role="img" aria-label={`Pieces. ${words.join(", ")}`}>
          {cells.map((cell, index) => (
            <span
              // biome-ignore lint/suspicious/noArrayIndexKey: a cell is its place
              key={index}
              className={classes.cell}
              data-mark={markOf(cell)}
              style={{ backgroundImage: background(cell.bytes, "to top") }}
            />
          ))}
        </div>
        <div className={classes.ends} aria-hidden>
          <span>first listed</span>
          <span>{map.listed ? "last" : "more is being listed"}</span>
        </div>
      </div>
      <ul className={classes.legend}>
        {present.map(({ key, label }) => (
          <li key={key}>
            <i style={{ backgroundImage: `linear-gradient(var(--piece-${key}) 0 100%)` }} />
            {label} <Bytes value={map.totals[key]} />
            <span className="dim"> {formatShare(map.totals[key] / map.bytes)}</span>
          </li>
        ))}
        {map.failures > 0 && (
          <li>
            <i className={classes.tick} />
            {map.failures === 1 ? "1 item" : `${formatCount(map.failures)} items`} failed
          </li>
        )}
      </ul>
      {map.files !== undefined && map.files.length > 0 && <Files map={map} found={files} />}
      <details className={classes.details}>
        <summary>As a table</summary>
        <Table map={map} />
      </details>
    </div>
  );
}

/** The files, where there are few, and how many of those found are not in the map. */
function Files({ map, found }: { map: PieceMap; found: number }) {
  const more = moreFiles(map, found);
  return (
    <ul className={classes.files} aria-label="Files">
      {(map.files ?? []).map(({ path, bytes, failed }, index) => {
        const whole = sumOf(bytes);
        const done = whole === 0 ? "empty" : formatShare(bytes.done / whole);
        const words = failed ? "failed" : `${done} of ${formatBytes(whole)}`;
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: long paths may look the same
          <li key={index}>
            <span className={classes.name} title={path}>
              {path}
            </span>
            <span className={classes.amount} data-failed={failed || undefined}>
              {whole === 0 && !failed ? "empty" : words}
            </span>
            <span
              className={classes.file}
              aria-hidden
              style={{ backgroundImage: background(bytes, "to right") }}
            />
          </li>
        );
      })}
      {more > 0 && <li className="dim">{more} more: their turn comes later</li>}
    </ul>
  );
}

function Table({ map }: { map: PieceMap }) {
  const rows = stretchesOf(map, ROWS);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: keys scroll it where it is narrow
    <section className={classes.scroll} tabIndex={0} aria-label="Pieces as a table">
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">Part</th>
            {SHARES.map(({ key, label }) => (
              <th scope="col" key={key}>
                {label}
              </th>
            ))}
            <th scope="col">Failed items</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ bytes, failures }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a row is its place
            <tr key={index}>
              <th scope="row">
                {Math.round((index * 100) / rows.length)} to{" "}
                {Math.round(((index + 1) * 100) / rows.length)} %
              </th>
              {SHARES.map(({ key }) => (
                <td key={key}>{bytes[key] === 0 ? "–" : formatBytes(bytes[key])}</td>
              ))}
              <td>{failures === 0 ? "–" : formatCount(failures)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
