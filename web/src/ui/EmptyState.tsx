/** What is seen where there is nothing: why, and what to do. */

import type { ComponentType, ReactNode } from "react";
import classes from "./EmptyState.module.css";

interface Props {
  icon: ComponentType<{ size?: number; stroke?: number; "aria-hidden"?: boolean }>;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}

export function EmptyState({ icon: Icon, title, children, action }: Props) {
  return (
    <div className={classes.empty}>
      <span className={classes.icon}>
        <Icon size={24} stroke={1.6} aria-hidden />
      </span>
      <p className={classes.title}>{title}</p>
      {children !== undefined && <div className={classes.text}>{children}</div>}
      {action !== undefined && <div className={classes.action}>{action}</div>}
    </div>
  );
}
