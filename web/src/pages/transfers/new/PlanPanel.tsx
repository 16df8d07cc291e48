/** What the transfer would do: totals of each action, guards, the forecast, the first items. */

import { Button, Tabs } from "@mantine/core";
import { useState } from "react";
import { formatCount, formatRate, sentence } from "../../../ui/format";
import { IconAlert } from "../../../ui/icons";
import { Panel } from "../../../ui/Panel";
import { ProblemBox } from "../../../ui/ProblemBox";
import { Bytes, Count, Duration } from "../../../ui/Quantity";
import classes from "./PlanPanel.module.css";
import { KEPT_MAX, type Plan, type PlanEnd, type PlanItem } from "./plan";

export interface Planning {
  busy: boolean;
  plan: Plan | null;
  error: unknown;
  /** The form has changed since. */
  stale: boolean;
}

/** Actions in the order in which they are shown, and the words for them. */
const ACTIONS: [string, string][] = [
  ["copy", "Copy"],
  ["replace", "Replace"],
  ["link", "Link"],
  ["attributes", "Attributes only"],
  ["delete", "Delete"],
  ["skip", "Leave"],
  ["fail", "Fail"],
];

interface Props {
  planning: Planning;
  onStop: () => void;
  onAgain: () => void;
}

export function PlanPanel({ planning, onStop, onAgain }: Props) {
  const { busy, plan, error, stale } = planning;
  return (
    <Panel
      title="Plan"
      aside={
        busy ? `${formatCount(plan?.read ?? 0)} items compared` : stale ? "of the form before" : ""
      }
      actions={
        busy ? (
          <Button size="compact-sm" variant="default" onClick={onStop}>
            Stop
          </Button>
        ) : (
          stale && (
            <Button size="compact-sm" variant="default" onClick={onAgain}>
              Plan again
            </Button>
          )
        )
      }
    >
      {error !== null && <ProblemBox error={error} onRetry={onAgain} />}
      {busy && (
        <p className="dim" role="status">
          Both sites compare what they have. Nothing is written.
        </p>
      )}
      {plan?.end !== undefined && <Outcome plan={plan} end={plan.end} />}
    </Panel>
  );
}

function Outcome({ plan, end }: { plan: Plan; end: PlanEnd }) {
  const totals = end.totals as unknown as Record<string, { items: number; bytes: number }>;
  const shown = ACTIONS.filter(([action]) => (totals[action]?.items ?? 0) > 0);
  return (
    <>
      {shown.length === 0 && <p>Nothing is to be done: the target has all of it.</p>}
      <ul className={classes.totals}>
        {shown.map(([action, label]) => (
          <li key={action} data-action={action}>
            <span>{label}</span>
            <b>
              <Count value={totals[action]?.items ?? 0} />
            </b>
            <span className="dim">
              <Bytes value={totals[action]?.bytes ?? 0} />
            </span>
          </li>
        ))}
      </ul>
      <Guards end={end} />
      {end.forecast && (
        <p className={classes.forecast}>
          About <Duration seconds={end.forecast.seconds} /> at{" "}
          {formatRate(end.forecast.rate_bits_per_s)}
          <span className="dim"> · {end.forecast.basis}</span>
        </p>
      )}
      {shown.length > 0 && <Items plan={plan} shown={shown} totals={totals} />}
    </>
  );
}

function Guards({ end }: { end: PlanEnd }) {
  const lines: string[] = [];
  if (end.unlisted > 0) {
    const first = end.unlisted_items?.[0];
    const why = first ? ` ${first.path || "."}: ${first.message}` : "";
    lines.push(`${formatCount(end.unlisted)} items cannot be read, and will fail.${why}`);
  }
  if (end.not_carried > 0) {
    lines.push(
      `${formatCount(end.not_carried)} items, such as sockets, are of no kind that moves.`,
    );
  }
  if (end.not_chosen > 0) {
    lines.push(`${formatCount(end.not_chosen)} items are left out by the rules.`);
  }
  const refused = end.refused as { detail?: string; hint?: string } | null;
  return (
    <>
      {refused && (
        <p className={classes.guard} data-tone="bad">
          <IconAlert size={17} aria-hidden />
          Nothing would be deleted: {refused.detail}. {sentence(refused.hint ?? "")}
        </p>
      )}
      {lines.map((line) => (
        <p key={line} className={classes.guard}>
          <IconAlert size={17} aria-hidden />
          {line}
        </p>
      ))}
    </>
  );
}

interface ItemsProps {
  plan: Plan;
  shown: [string, string][];
  totals: Record<string, { items: number }>;
}

function Items({ plan, shown, totals }: ItemsProps) {
  const [tab, setTab] = useState<string | null>(null);
  const value = tab ?? shown[0]?.[0] ?? null;
  return (
    <Tabs value={value} onChange={setTab} className={classes.tabs}>
      <Tabs.List>
        {shown.map(([action, label]) => (
          <Tabs.Tab key={action} value={action}>
            {label}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {shown.map(([action]) => {
        const items = (plan.first.get(action) ?? []).toSorted((a, b) => (a.path < b.path ? -1 : 1));
        const rest = (totals[action]?.items ?? 0) - items.length;
        return (
          <Tabs.Panel key={action} value={action}>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by keys */}
            <ul className={classes.items} tabIndex={0} aria-label="First items">
              {items.map((item) => (
                <Item key={item.path} item={item} />
              ))}
            </ul>
            {rest > 0 && (
              <p className={classes.rest}>
                {formatCount(rest)} more
                {items.length === KEPT_MAX && ": the page keeps the first of them"}
              </p>
            )}
          </Tabs.Panel>
        );
      })}
    </Tabs>
  );
}

function Item({ item }: { item: PlanItem }) {
  return (
    <li>
      <span className={classes.path} title={item.path}>
        {item.path || <span className="dim">the directory itself</span>}
        {item.kind === "directory" && item.path !== "" && "/"}
      </span>
      {item.why && <span className="dim">{item.why}</span>}
      {item.kind === "file" && (
        <span className={classes.size}>
          <Bytes value={item.size} />
        </span>
      )}
    </li>
  );
}
