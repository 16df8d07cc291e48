/** A place in a store, as the command line writes it. */

import { formatLocation } from "./format";
import { IconRight } from "./icons";
import classes from "./Location.module.css";

type Place = Parameters<typeof formatLocation>[0];

export function Place({ place }: { place: Place }) {
  const text = formatLocation(place);
  return (
    <span className={classes.place} title={text}>
      {text}
    </span>
  );
}

/** From one place to another. */
export function FromTo({ source, target }: { source: Place; target: Place }) {
  return (
    <span className={classes.fromTo}>
      <Place place={source} />
      <IconRight size={14} aria-label="to" className={classes.arrow} />
      <Place place={target} />
    </span>
  );
}
