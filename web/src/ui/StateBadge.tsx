/** The state of something as a word with an icon: never by its colour alone. */

import type { ComponentType } from "react";
import {
  IconAlert,
  IconCancel,
  IconClock,
  IconDone,
  IconFailed,
  IconNote,
  IconPause,
  IconRunning,
} from "./icons";
import classes from "./StateBadge.module.css";

export type Tone = "ok" | "accent" | "warn" | "bad" | "dim";

interface Look {
  tone: Tone;
  icon: ComponentType<{ size?: number; "aria-hidden"?: boolean }>;
}

const TRANSFER: Record<string, Look> = {
  queued: { tone: "dim", icon: IconClock },
  running: { tone: "accent", icon: IconRunning },
  paused: { tone: "warn", icon: IconPause },
  done: { tone: "ok", icon: IconDone },
  failed: { tone: "bad", icon: IconFailed },
  cancelled: { tone: "dim", icon: IconCancel },
};

/** The state of a transfer. A state of a later release is shown by its name. */
export function StateBadge({ state }: { state: string }) {
  const look = TRANSFER[state] ?? { tone: "dim" as const, icon: IconNote };
  return <ToneBadge tone={look.tone} icon={look.icon} label={state} />;
}

const LEVEL: Record<string, Look> = {
  ok: { tone: "ok", icon: IconDone },
  note: { tone: "dim", icon: IconNote },
  warning: { tone: "warn", icon: IconAlert },
  bad: { tone: "bad", icon: IconFailed },
};

/** The severity of a finding. */
export function LevelBadge({ level, label }: { level: string; label?: string }) {
  const look = LEVEL[level] ?? { tone: "dim" as const, icon: IconNote };
  return <ToneBadge tone={look.tone} icon={look.icon} label={label ?? level} />;
}

interface ToneProps {
  tone: Tone;
  icon?: Look["icon"];
  label: string;
}

export function ToneBadge({ tone, icon: Icon, label }: ToneProps) {
  return (
    <span className={classes.badge} data-tone={tone}>
      {Icon && <Icon size={14} aria-hidden />}
      {label}
    </span>
  );
}
