/** A chart of rates over time, with the same figures as a table for those who cannot see it. */

import { Button } from "@mantine/core";
import { useEffect, useId, useRef, useState } from "react";
import uPlot from "uplot";
import { formatClock, formatRate } from "./format";
import classes from "./RateChart.module.css";

export interface RateLine {
  label: string;
  /** Bits per second; null where nothing is known. */
  values: (number | null)[];
  /** A variable of the theme, as `--ps-chart-in`. */
  color: string;
  /** A bound rather than a figure: dashed, without a fill. */
  dashed?: boolean;
}

interface Props {
  label: string;
  /** Seconds since 1970, ascending. */
  at: number[];
  lines: RateLine[];
  /** Pixels. */
  height?: number;
  /** Shortest time that the axis shows, in seconds. */
  span?: number;
}

function variable(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Counts the changes of the colours, so that a canvas is drawn anew. */
function useColours(): number {
  const [changes, setChanges] = useState(0);
  useEffect(() => {
    const watch = new MutationObserver(() => setChanges((count) => count + 1));
    watch.observe(document.documentElement, { attributeFilter: ["data-mantine-color-scheme"] });
    return () => watch.disconnect();
  }, []);
  return changes;
}

function options(props: Props, width: number): uPlot.Options {
  const { lines, height = 200, span = 60 } = props;
  const dim = variable("--ps-dim");
  const grid = { stroke: variable("--ps-border"), width: 1 };
  const font = `12px ${variable("--mantine-font-family")}`;
  return {
    width,
    height,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    padding: [8, 30, 0, 0],
    scales: {
      x: {
        range: (_plot, min, max) => {
          const end = max ?? Date.now() / 1_000;
          return [Math.min(min ?? end, end - span), end];
        },
      },
      y: { range: (_plot, _min, max) => [0, Math.max(1_000_000, (max ?? 0) * 1.12)] },
    },
    axes: [
      {
        stroke: dim,
        grid: { show: false },
        ticks: { show: false },
        font,
        size: 26,
        space: 90,
        values: (plot, ticks, _axis, _space, step) =>
          ticks.map((tick) =>
            // At the left end its words would lie over those of the other axis.
            plot.valToPos(tick, "x") < 30
              ? null
              : formatClock(tick * 1_000).slice(0, step < 60 ? 8 : 5),
          ),
      },
      {
        stroke: dim,
        grid,
        ticks: { show: false },
        font,
        size: 78,
        space: 42,
        values: (_plot, ticks) => ticks.map((tick) => formatRate(tick)),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: variable(line.color),
        ...(line.dashed
          ? { dash: [6, 5] }
          : { fill: `color-mix(in srgb, ${variable(line.color)} 14%, transparent)` }),
        width: 1.75,
        points: { show: false },
        spanGaps: false,
      })),
    ],
  };
}

export function RateChart(props: Props) {
  const { label, at, lines, height = 200 } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [asTable, setAsTable] = useState(false);
  const [cursor, setCursor] = useState<number | null>(null);
  const colours = useColours();
  const latest = useRef(props);
  latest.current = props;
  const shape = lines.map((line) => line.label).join();

  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` and `colours` make a new chart
  useEffect(() => {
    const element = box.current;
    if (element === null || asTable) {
      return;
    }
    const now = latest.current;
    const made = new uPlot(
      {
        ...options(now, element.clientWidth),
        hooks: { setCursor: [(chart) => setCursor(chart.cursor.idx ?? null)] },
      },
      [now.at, ...now.lines.map((line) => line.values)],
      element,
    );
    plot.current = made;
    const watch = new ResizeObserver(() => {
      made.setSize({ width: element.clientWidth, height: now.height ?? 200 });
    });
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, colours, asTable]);

  useEffect(() => {
    plot.current?.setData([at, ...lines.map((line) => line.values)]);
  }, [at, lines]);

  const index = cursor ?? at.length - 1;
  return (
    <figure className={classes.figure} aria-label={label}>
      <figcaption className={classes.legend}>
        {lines.map((line) => {
          const value = line.values[index];
          return (
            <span key={line.label} className={classes.key}>
              <i style={{ background: `var(${line.color})` }} aria-hidden />
              {line.label}
              <b>{value === null || value === undefined ? "–" : formatRate(value)}</b>
            </span>
          );
        })}
        <span className={classes.right}>
          {cursor !== null && at[cursor] !== undefined && !asTable && (
            <span className="dim">{formatClock(at[cursor] * 1_000)}</span>
          )}
          <Button
            size="compact-xs"
            variant="subtle"
            color="gray"
            aria-pressed={asTable}
            onClick={() => setAsTable(!asTable)}
          >
            {asTable ? "As chart" : "As table"}
          </Button>
        </span>
      </figcaption>
      {asTable ? (
        <RateTable {...props} />
      ) : (
        <div ref={box} aria-hidden className={classes.canvas} style={{ height }} />
      )}
    </figure>
  );
}

/** At most sixty rows: the newest, and each a mean of as many samples as it takes. */
function RateTable({ label, at, lines, height = 200 }: Props) {
  const id = useId();
  const step = Math.max(1, Math.ceil(at.length / 60));
  const rows: { at: number; values: (number | null)[] }[] = [];
  for (let end = at.length; end > 0; end -= step) {
    const begin = Math.max(0, end - step);
    rows.push({
      at: at[end - 1] ?? 0,
      values: lines.map((line) => mean(line.values.slice(begin, end))),
    });
  }
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by the keyboard
    <section className={classes.scroll} style={{ height }} tabIndex={0} aria-labelledby={id}>
      <table className={classes.table}>
        <caption id={id} className={classes.caption}>
          {label}, newest first
        </caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {lines.map((line) => (
              <th key={line.label} scope="col">
                {line.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.at}>
              <td>{formatClock(row.at * 1_000)}</td>
              {row.values.map((value, column) => (
                <td key={lines[column]?.label}>{value === null ? "–" : formatRate(value)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function mean(values: (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}
