/** Names and values, one pair a line. */

import type { ReactNode } from "react";
import classes from "./Facts.module.css";

/** A pair; one without a value is left out. */
type Fact = readonly [name: string, value: ReactNode];

export function Facts({ facts }: { facts: readonly Fact[] }) {
  const shown = facts.filter(([, value]) => value !== undefined && value !== "" && value !== false);
  return (
    <dl className={classes.facts}>
      {shown.map(([name, value]) => (
        <div key={name} className={classes.pair}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
