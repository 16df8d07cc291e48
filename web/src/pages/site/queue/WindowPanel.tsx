/** Times of the week in which other limits hold, on a grid of the week and as a list. */

import { Button } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { ActionButton } from "../../../ui/ActionButton";
import { useConfirm } from "../../../ui/ConfirmDialog";
import { EmptyState } from "../../../ui/EmptyState";
import { formatCount, formatRate } from "../../../ui/format";
import { IconAdd, IconCalendar } from "../../../ui/icons";
import { Panel } from "../../../ui/Panel";
import { Moment } from "../../../ui/Quantity";
import { ToneBadge } from "../../../ui/StateBadge";
import classes from "./QueuePage.module.css";
import { type Draft, draftOf, NEW_WINDOW, WindowDialog } from "./WindowDialog";
import { DAY_NAMES, DAYS, dayWords, placeOf, spansOf } from "./week";

type Window = Schemas["WindowView"];

export function WindowPanel({ windows }: { windows: Window[] }) {
  const [draft, setDraft] = useState<Draft | null>(null);
  return (
    <Panel
      title="Windows"
      aside="times of the week with other limits"
      flush
      actions={
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconAdd size={15} />}
          onClick={() => setDraft(NEW_WINDOW)}
        >
          Window
        </Button>
      }
    >
      {windows.length === 0 ? (
        <EmptyState icon={IconCalendar} title="No window">
          A window limits transfers at some times, such as to 2 Gbit/s in office hours, or closes a
          store at night.
        </EmptyState>
      ) : (
        <>
          <Week windows={windows} />
          <ul className={classes.list} aria-label="Windows">
            {windows.map((window) => (
              <WindowItem
                key={window.name}
                window={window}
                onChange={() => setDraft(draftOf(window))}
              />
            ))}
          </ul>
        </>
      )}
      <WindowDialog draft={draft} onClose={() => setDraft(null)} />
    </Panel>
  );
}

/** The list beneath says the same in words. */
function Week({ windows }: { windows: Window[] }) {
  const spans = spansOf(windows);
  const closed = new Set(windows.filter((one) => one.running === 0).map((one) => one.name));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls takes the focus
    <div className={classes.week} tabIndex={0} role="img" aria-label="Windows of the week">
      <div className={classes.grid} aria-hidden>
        <span />
        <div className={classes.hours}>
          {["00", "03", "06", "09", "12", "15", "18", "21", "24"].map((hour) => (
            <span key={hour}>{hour}</span>
          ))}
        </div>
        {DAYS.map((day) => (
          <Lane key={day} name={DAY_NAMES[day]} spans={spans[day]} closed={closed} />
        ))}
      </div>
    </div>
  );
}

interface LaneProps {
  name: string;
  spans: ReturnType<typeof spansOf>["mon"];
  closed: ReadonlySet<string>;
}

function Lane({ name, spans, closed }: LaneProps) {
  return (
    <>
      <span className={classes.day}>{name}</span>
      <div className={classes.track}>
        {spans.map((span) => (
          <div
            key={`${span.window} ${span.from}`}
            className={classes.span}
            title={span.window}
            data-closed={closed.has(span.window) || undefined}
            style={placeOf(span)}
          />
        ))}
      </div>
    </>
  );
}

/** Returns what a window limits, in words. */
function limitWords(window: Window): string {
  const of = window.pair
    ? ` with ${window.pair}`
    : window.store
      ? ` of the store ${window.store}`
      : window.user
        ? ` of ${window.user}`
        : "";
  if (window.running === 0) {
    return `no transfer${of} runs`;
  }
  const parts = [
    window.running === undefined ? "" : `${formatCount(window.running)} at a time`,
    window.rate_bits_per_s === undefined ? "" : `${formatRate(window.rate_bits_per_s)} together`,
  ];
  return `transfers${of}: ${parts.filter(Boolean).join(", ")}`;
}

function WindowItem({ window, onChange }: { window: Window; onChange: () => void }) {
  const confirm = useConfirm();
  const queries = useQueryClient();
  const remove = () =>
    confirm({
      title: `Remove the window ${window.name}?`,
      effect: <p>The usual limits hold at these times from now on.</p>,
      verb: "Remove the window",
      danger: false,
      run: async () => {
        const params = { path: { name: window.name } };
        await unwrap(api.DELETE("/api/v1/queue/windows/{name}", { params }));
        void queries.invalidateQueries({ queryKey: keys.queue });
      },
    });
  return (
    <li className={classes.item}>
      <div className={classes.words}>
        <p className={classes.title}>
          {window.name}
          {window.in_force && <ToneBadge tone="accent" label="in force" />}
        </p>
        <p>
          {dayWords(window.days)}, {window.from} to {window.to} ({window.zone}):{" "}
          {limitWords(window)}
        </p>
        {window.turns_at && (
          <p className="dim">
            {window.in_force ? "Ends" : "Begins"} <Moment at={window.turns_at} />
          </p>
        )}
      </div>
      <div className="cell-actions">
        <Button
          size="compact-sm"
          variant="default"
          aria-label={`Change the window ${window.name}`}
          onClick={onChange}
        >
          Change
        </Button>
        <ActionButton
          size="compact-sm"
          variant="default"
          aria-label={`Remove the window ${window.name}`}
          onClick={remove}
        >
          Remove
        </ActionButton>
      </div>
    </li>
  );
}
