/** Where the time of a transfer goes: one bar per side. */

import { formatShare } from "../../../ui/format";
import { Panel } from "../../../ui/Panel";
import classes from "./TimePanel.module.css";
import { type SideTime, sidesOf } from "./time";
import type { TransferView } from "./useTransfer";

export function TimePanel({ view }: { view: TransferView }) {
  const sides = sidesOf(view.progress.time);
  if (sides.length === 0) {
    return null;
  }
  const parts = new Map(sides.flatMap((side) => side.parts.map((part) => [part.key, part.label])));
  return (
    <Panel title="Where the time goes" aside="of the threads at each side">
      {sides.map((side) => (
        <SideBar key={side.label} side={side} />
      ))}
      <ul className={classes.legend} aria-hidden>
        {[...parts].map(([key, label]) => (
          <li key={key}>
            <i data-part={key} />
            {label}
          </li>
        ))}
      </ul>
      {view.bottleneck && view.state !== "running" && (
        <p className={classes.cause}>
          It was limited by <b>{view.bottleneck.text}</b>.
        </p>
      )}
    </Panel>
  );
}

/** The bar, and the same as a table for readers of screens. */
function SideBar({ side }: { side: SideTime }) {
  const shares = side.parts.map((part) => ({ ...part, share: part.seconds / side.whole }));
  return (
    <div className={classes.side}>
      <span className={classes.name} aria-hidden>
        {side.label}
      </span>
      <div className={classes.bar} aria-hidden>
        {shares.map(({ key, label, share }) => (
          <span
            key={key}
            data-part={key}
            style={{ width: `${share * 100}%` }}
            title={`${label}: ${formatShare(share)}`}
          >
            {share >= 0.12 && <b>{formatShare(share)}</b>}
          </span>
        ))}
      </div>
      <table className="visually-hidden">
        <caption>Where the time goes: {side.label.toLowerCase()}</caption>
        <tbody>
          {shares.map(({ key, label, share }) => (
            <tr key={key}>
              <th scope="row">{label}</th>
              <td>{formatShare(share)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
