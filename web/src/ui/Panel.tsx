/** A framed part of a page with a heading. */

import { type ReactNode, useId } from "react";
import classes from "./Panel.module.css";

interface Props {
  title: string;
  /** Beside the heading, as a number. */
  aside?: ReactNode;
  /** At the right end of the heading. */
  actions?: ReactNode;
  /** Without padding, for tables and lists. */
  flush?: boolean;
  className?: string;
  children: ReactNode;
}

export function Panel({ title, aside, actions, flush = false, className, children }: Props) {
  const id = useId();
  return (
    <section className={`${classes.panel} ${className ?? ""}`} aria-labelledby={id}>
      <div className={classes.head}>
        <h2 className={classes.title} id={id}>
          {title}
        </h2>
        {aside !== undefined && <span className={classes.aside}>{aside}</span>}
        {actions !== undefined && <div className={classes.actions}>{actions}</div>}
      </div>
      <div className={flush ? classes.flush : classes.body}>{children}</div>
    </section>
  );
}
