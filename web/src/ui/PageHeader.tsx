/** The head of a page: its name, what it is about, and what can be done. */

import { type ReactNode, useEffect, useLayoutEffect, useRef } from "react";
import { useLocation } from "wouter";
import classes from "./PageHeader.module.css";

interface Props {
  /** The only `h1` of the page, and its title in the browser. */
  title: string;
  /** A text for the tab of the browser, if another than the title. */
  tab?: string;
  /** Above the title, as a link to the page above. */
  above?: ReactNode;
  subtitle?: ReactNode;
  actions?: ReactNode;
}

/** The path for which the focus has been moved, so that a page which renders anew keeps it. */
let focused: string | null = null;

/** Notes the path at which a browser came: its page may be on its way when one goes elsewhere. */
export function useFirstPath(): void {
  const [path] = useLocation();
  useLayoutEffect(() => {
    focused ??= path;
  }, [path]);
}

export function PageHeader({ title, tab, above, subtitle, actions }: Props) {
  const heading = useRef<HTMLHeadingElement>(null);
  const [path] = useLocation();
  useEffect(() => {
    document.title = `${tab ?? title} · Penstock`;
  }, [tab, title]);
  useLayoutEffect(() => {
    // Readers of screens learn that a new page is there; the first one they read anyway.
    if (focused !== null && focused !== path) {
      heading.current?.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
    focused = path;
  }, [path]);
  return (
    <header className={classes.header}>
      <div className={classes.words}>
        {above !== undefined && <div className={classes.above}>{above}</div>}
        <h1 className={classes.title} tabIndex={-1} ref={heading}>
          {title}
        </h1>
        {subtitle !== undefined && <div className={classes.subtitle}>{subtitle}</div>}
      </div>
      {actions !== undefined && <div className={classes.actions}>{actions}</div>}
    </header>
  );
}
