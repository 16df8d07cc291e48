/** A bar of how much is done. */

import { formatShare } from "./format";
import classes from "./Meter.module.css";

interface Props {
  /** Between 0 and 1; null where the whole is not known yet. */
  share: number | null;
  label: string;
  tone?: "accent" | "ok" | "warn" | "bad" | "dim";
}

export function Meter({ share, label, tone = "accent" }: Props) {
  const percent = share === null ? 0 : Math.max(0, Math.min(1, share)) * 100;
  return (
    <div
      className={classes.track}
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      {...(share === null
        ? { "aria-valuetext": "not known yet" }
        : { "aria-valuenow": Math.floor(percent), "aria-valuetext": formatShare(share) })}
    >
      <div
        className={share === null ? classes.unknown : classes.fill}
        data-tone={tone}
        style={share === null ? undefined : { width: `${percent}%` }}
      />
    </div>
  );
}
