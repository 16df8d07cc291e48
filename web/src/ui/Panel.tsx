/** A framed part of a page with a heading. */

import { type ReactNode, useId } from "react";
import classes from "./Panel.module.css";

interface Props {
  title: string;
  /** Beside the heading, as a number. */
  aside?: ReactNode;
  /** At the right end of the heading. */
  actions?: ReactNode;
  /** The heading is for readers of screens only: the page says it already. */
  hidesTitle?: boolean;
  /** Without padding, for tables and lists. */
  flush?: boolean;
  className?: string;
  children: ReactNode;
}

export function Panel(props: Props) {
  const { title, aside, actions, hidesTitle = false, flush = false, className, children } = props;
  const id = useId();
  return (
    <section className={`${classes.panel} ${className ?? ""}`} aria-labelledby={id}>
      <div className={hidesTitle ? classes.hidden : classes.head}>
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
