/** What is around the pages of somebody who is not logged in. */

import { type ReactNode, useEffect } from "react";
import { Logo } from "../../frame/Logo";
import classes from "./AccessFrame.module.css";

interface Props {
  title: string;
  subtitle?: ReactNode;
  children: ReactNode;
}

export function AccessFrame({ title, subtitle, children }: Props) {
  useEffect(() => {
    document.title = `${title} · Penstock`;
  }, [title]);
  return (
    <div className={classes.page}>
      <main className={classes.card}>
        <div className={classes.brand}>
          <Logo size={34} />
          <span>Penstock</span>
        </div>
        <h1 className={classes.title}>{title}</h1>
        {subtitle !== undefined && <div className={classes.subtitle}>{subtitle}</div>}
        {children}
      </main>
      <footer className={classes.host}>{window.location.host}</footer>
    </div>
  );
}
