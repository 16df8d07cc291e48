/** Box plots in the rows of a table, which says the same in figures. */

import classes from "./BoxPlots.module.css";

export interface Spread {
  min: number;
  p5: number;
  q1: number;
  median: number;
  q3: number;
  p95: number;
  max: number;
}

interface Props {
  label: string;
  rows: { name: string; spread: Spread }[];
  /** Greatest value of the axis. */
  top: number;
  format: (value: number) => string;
  /** A variable of the theme, as `--ps-chart-in`. */
  color?: string;
}

/** Parts of the axis that are named. */
const MARKS = [0, 0.5, 1];
/** Height of a row in the units of the drawing; its width is 100. */
const HEIGHT = 20;

export function BoxPlots({ label, rows, top, format, color = "--ps-chart-in" }: Props) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by the keyboard
    <section className={classes.scroll} tabIndex={0} aria-label={label}>
      <table className={classes.table}>
        <caption className="visually-hidden">{label}</caption>
        <thead>
          <tr>
            <th scope="col">
              <span className="visually-hidden">Figure</span>
            </th>
            <th scope="col" className={classes.plot}>
              <span className={classes.axis} aria-hidden>
                {MARKS.map((mark) => (
                  <span key={mark}>{format(top * mark)}</span>
                ))}
              </span>
              <span className="visually-hidden">Drawing</span>
            </th>
            <th scope="col">Median</th>
            <th scope="col">Half between</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, spread }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td className={classes.plot}>
                <Box spread={spread} top={top} color={color} />
              </td>
              <td>{format(spread.median)}</td>
              <td>
                {format(spread.q1)} – {format(spread.q3)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className={classes.key}>
        The box has the middle half of all seconds, its bar is the median. The thick line has 90 %
        of them, the thin one all.
      </p>
    </section>
  );
}

/** One row: least and greatest value, 5 and 95 %, quartiles, median. */
function Box({ spread, top, color }: { spread: Spread; top: number; color: string }) {
  const at = (value: number) => (top > 0 ? Math.min(100, Math.max(0, (100 * value) / top)) : 0);
  const middle = HEIGHT / 2;
  // A box of equal quartiles is still seen.
  const width = Math.max(0.6, at(spread.q3) - at(spread.q1));
  const left = Math.min(at(spread.q1), 100 - width);
  const stroke = `var(${color})`;
  return (
    <svg
      viewBox={`0 0 100 ${HEIGHT}`}
      preserveAspectRatio="none"
      className={classes.drawing}
      aria-hidden="true"
    >
      {MARKS.map((mark) => (
        <line
          key={mark}
          x1={100 * mark}
          x2={100 * mark}
          y1={0}
          y2={HEIGHT}
          stroke="var(--ps-border)"
          vectorEffect="non-scaling-stroke"
        />
      ))}
      <g stroke={stroke} vectorEffect="non-scaling-stroke">
        <Line from={at(spread.min)} to={at(spread.max)} width={1} />
        <Line from={at(spread.p5)} to={at(spread.p95)} width={3} />
        <rect
          x={left}
          y={middle - 6}
          width={width}
          height={12}
          fill={`color-mix(in srgb, ${stroke} 28%, var(--ps-panel))`}
          strokeWidth={1.5}
          vectorEffect="non-scaling-stroke"
        />
      </g>
      <line
        x1={at(spread.median)}
        x2={at(spread.median)}
        y1={middle - 6}
        y2={middle + 6}
        stroke="var(--ps-text)"
        strokeWidth={2}
        vectorEffect="non-scaling-stroke"
      />
    </svg>
  );
}

function Line({ from, to, width }: { from: number; to: number; width: number }) {
  const middle = HEIGHT / 2;
  return (
    <line
      x1={from}
      x2={to}
      y1={middle}
      y2={middle}
      strokeWidth={width}
      vectorEffect="non-scaling-stroke"
    />
  );
}
