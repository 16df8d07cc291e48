/** Findings about a host or a site: what is so, why it matters, and what to do. */

import type { Schemas } from "../api/client";
import classes from "./FindingList.module.css";
import { sentence } from "./format";
import { LevelBadge } from "./StateBadge";

export function FindingList({ findings }: { findings: readonly Schemas["Finding"][] }) {
  return (
    <ul className={classes.list} aria-label="Findings">
      {findings.map((finding) => (
        <li key={finding.code + finding.peer + finding.what}>
          <LevelBadge level={finding.level} />
          <div>
            <p className={classes.what}>
              {finding.peer === "" ? spoken(finding.what) : `${finding.peer}: ${finding.what}`}
            </p>
            {finding.why !== "" && <p className="dim">{spoken(finding.why)}</p>}
            {finding.action !== "" && <p>{spoken(finding.action)}</p>}
          </div>
        </li>
      ))}
    </ul>
  );
}

/** Returns a text as a sentence, unless it begins with a name, as `net.ipv4.tcp_rmem`. */
function spoken(text: string): string {
  return /^[a-z]+['’,:; ]/.test(text) ? sentence(text) : text;
}
