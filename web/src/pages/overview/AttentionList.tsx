/** What needs attention, or that nothing does. */

import { useState } from "react";
import { sentence } from "../../ui/format";
import { IconAlert, IconFailed, IconOk } from "../../ui/icons";
import { LinkTo, useReaches } from "../../ui/LinkTo";
import classes from "./AttentionList.module.css";
import type { Attention } from "./attention";

/** Lines that are shown at first. */
const SHOWN = 6;

export function AttentionList({ matters, level }: { matters: Attention[]; level: string }) {
  const [all, setAll] = useState(false);
  if (matters.length === 0) {
    return (
      <section className={classes.well} aria-label="Needs attention">
        <IconOk size={20} aria-hidden />
        <p>
          Nothing needs attention{level === "ok" || level === "note" ? "" : " that you may see"}.
        </p>
      </section>
    );
  }
  const shown = all ? matters : matters.slice(0, SHOWN);
  return (
    <section className={classes.box} aria-labelledby="attention">
      <h2 className={classes.title} id="attention">
        Needs attention <span className={classes.count}>{matters.length}</span>
      </h2>
      <ul className={classes.list}>
        {shown.map((matter) => (
          <Matter key={matter.key} matter={matter} />
        ))}
      </ul>
      {matters.length > shown.length && (
        <button type="button" className={classes.more} onClick={() => setAll(true)}>
          Show {matters.length - shown.length} more
        </button>
      )}
    </section>
  );
}

function Matter({ matter }: { matter: Attention }) {
  const reaches = useReaches();
  const Icon = matter.level === "bad" ? IconFailed : IconAlert;
  return (
    <li className={classes.matter} data-level={matter.level}>
      <Icon size={18} aria-label={matter.level === "bad" ? "bad" : "warning"} />
      <div className={classes.words}>
        <p className={classes.what}>{matter.what}.</p>
        {matter.why !== "" && <p className="dim">{sentence(matter.why)}.</p>}
        {matter.action !== "" && <p>{sentence(matter.action)}.</p>}
      </div>
      {matter.to !== undefined && reaches(matter.to) && (
        <LinkTo to={matter.to} className={classes.link}>
          {matter.link}
        </LinkTo>
      )}
    </li>
  );
}
