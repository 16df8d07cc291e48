/** What can be changed while a transfer waits or runs: limit, turn, deadline, label. */

import { Button, NativeSelect, Slider, Switch, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { useCanAct } from "../../../api/live-context";
import { problemOf } from "../../../api/problem";
import { useRight } from "../../../api/queries";
import { ActionButton } from "../../../ui/ActionButton";
import { localOf, parseRate, rateText, timeOf } from "../../../ui/field-text";
import { formatRate } from "../../../ui/format";
import { Panel } from "../../../ui/Panel";
import { ProblemBox } from "../../../ui/ProblemBox";
import { Moment } from "../../../ui/Quantity";
import { note, noteFault } from "../steer";
import classes from "./SteerPanel.module.css";
import type { TransferView } from "./useTransfer";

type Patch = Schemas["TransferPatch"];

/** Returns a function that changes a transfer, and shows what the daemon has made of it. */
function useChange(id: string) {
  const queries = useQueryClient();
  return async (call: Promise<TransferView>) => {
    const view = await call;
    queries.setQueryData(keys.transfer(id), view);
    void queries.invalidateQueries({ queryKey: keys.transfers });
    return view;
  };
}

function patch(id: string, body: Patch): Promise<TransferView> {
  return unwrap(api.PATCH("/api/v1/transfers/{id}", { params: { path: { id } }, body }));
}

export function SteerPanel({ view }: { view: TransferView }) {
  return (
    <Panel title="Controls">
      <RateLimit view={view} key={String(view.limits.rate_bits_per_s)} />
      <Turn view={view} />
      <DeadlineForm view={view} />
      <LabelForm view={view} key={view.label} />
    </Panel>
  );
}

/** Rates at which the slider stops, in bits per second; after the last one there is no limit. */
const STOPS = [1e6, 1e7, 1e8, 1e9, 1e10, 1e11].flatMap((ten) => [ten, 2 * ten, 5 * ten]);

/** Returns the stop that is nearest to a rate. */
function stopOf(rate: number | null | undefined): number {
  if (typeof rate !== "number") {
    return STOPS.length;
  }
  const distance = (stop: number) => Math.abs(Math.log(stop / rate));
  return STOPS.reduce(
    (best, stop, index) => (distance(stop) < distance(STOPS[best] ?? 1) ? index : best),
    0,
  );
}

function rateWords(rate: number | null | undefined): string {
  return typeof rate === "number" ? formatRate(rate) : "no limit";
}

function RateLimit({ view }: { view: TransferView }) {
  const { id } = view;
  const now = view.limits.rate_bits_per_s;
  const can = useCanAct();
  const change = useChange(id);
  const [stop, setStop] = useState(stopOf(now));
  const [isMoved, setIsMoved] = useState(false);
  const [text, setText] = useState("");
  const set = async (rate: number | null, before: number | null | undefined) => {
    try {
      await change(patch(id, { limits: { rate_bits_per_s: rate } }));
      note(`Rate limit: ${rateWords(rate)}.`, () => void set(before ?? null, rate));
    } catch (error) {
      setStop(stopOf(now));
      noteFault("The limit is as it was", error);
    }
    setIsMoved(false);
  };
  const typed = parseRate(text);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (typed !== undefined) {
      void set(typed, now);
      setText("");
    }
  };
  return (
    <div className={classes.part}>
      <div className={classes.line}>
        <span id="rate-limit" className={classes.label}>
          Rate limit
        </span>
        <b>{rateWords(isMoved ? STOPS[stop] : now)}</b>
      </div>
      <Slider
        min={0}
        max={STOPS.length}
        step={1}
        label={null}
        disabled={!can}
        thumbProps={{
          "aria-labelledby": "rate-limit",
          "aria-valuetext": rateWords(isMoved ? STOPS[stop] : now),
        }}
        value={stop}
        onChange={(value) => {
          setStop(value);
          setIsMoved(true);
        }}
        onChangeEnd={(value) => void set(STOPS[value] ?? null, now)}
      />
      <div className={classes.ends} aria-hidden>
        <span>1 Mbit/s</span>
        <span>no limit</span>
      </div>
      <form className={classes.exact} onSubmit={submit}>
        <TextInput
          size="xs"
          aria-label="Exact rate"
          placeholder={typeof now === "number" ? rateText(now) : "as 750 Mbit/s"}
          value={text}
          error={text !== "" && typed === undefined ? "As 750 Mbit/s or 60 MB/s" : undefined}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        <ActionButton size="xs" variant="default" type="submit" disabled={typed === undefined}>
          Set
        </ActionButton>
      </form>
    </div>
  );
}

/** Priority and urgency count while a transfer waits. */
function Turn({ view }: { view: TransferView }) {
  const { id } = view;
  const operates = useRight("operate");
  const can = useCanAct();
  const change = useChange(id);
  const [text, setText] = useState("");
  const value = Number(text);
  const isValid = /^\d+$/.test(text) && value <= 100;
  const now = view.priority ?? 50;
  const set = async (priority: number, before: number) => {
    try {
      await change(patch(id, { priority }));
      setText("");
      note(`Priority: ${priority}.`, () => void set(before, priority));
    } catch (error) {
      noteFault("The priority is as it was", error);
    }
  };
  const setUrgent = async (urgent: boolean) => {
    const init = { params: { path: { id } } };
    try {
      await change(
        unwrap(
          urgent
            ? api.PUT("/api/v1/transfers/{id}/urgent", init)
            : api.DELETE("/api/v1/transfers/{id}/urgent", init),
        ),
      );
    } catch (error) {
      noteFault("The turn is as it was", error);
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isValid) {
      void set(value, now);
    }
  };
  return (
    <div className={classes.part}>
      <div className={classes.line}>
        <span className={classes.label}>Priority among the owner's</span>
        <b>{now}</b>
      </div>
      <form className={classes.exact} onSubmit={submit}>
        <TextInput
          size="xs"
          aria-label="Priority"
          placeholder="0 to 100"
          value={text}
          error={text !== "" && !isValid ? "0 to 100" : undefined}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        <ActionButton size="xs" variant="default" type="submit" disabled={!isValid}>
          Set
        </ActionButton>
      </form>
      {operates && view.state === "queued" && (
        <Switch
          className={classes.urgent}
          size="sm"
          label="Urgent: starts before the transfers of all users"
          disabled={!can}
          checked={view.urgent === true}
          onChange={(event) => void setUrgent(event.currentTarget.checked)}
        />
      )}
    </div>
  );
}

const POLICIES = [
  { value: "promise", label: "Only if it can be kept" },
  { value: "best_effort", label: "Report when at risk" },
  { value: "cancel", label: "Cancel when late" },
];

const OUTLOOK: Record<string, string> = {
  kept: "it will be kept",
  at_risk: "it is at risk",
  missed: "it is missed",
};

function DeadlineForm({ view }: { view: TransferView }) {
  const { id, deadline } = view;
  const change = useChange(id);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(deadline ? localOf(deadline.at) : "");
  const [policy, setPolicy] = useState<string>(deadline?.policy ?? "promise");
  const [error, setError] = useState<unknown>(null);
  const params = { path: { id } };
  const run = async (call: Promise<TransferView>, done: string) => {
    setError(null);
    try {
      await change(call);
      setOpen(false);
      note(done);
    } catch (why) {
      setError(why);
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const time = timeOf(at);
    if (time !== undefined) {
      const body = { at: time, policy: policy as Schemas["DeadlinePolicyInput"] };
      void run(
        unwrap(api.PUT("/api/v1/transfers/{id}/deadline", { params, body })),
        "The deadline is set.",
      );
    }
  };
  const outlook = error === null ? undefined : problemOf(error).deadline;
  return (
    <div className={classes.part}>
      <div className={classes.line}>
        <span className={classes.label}>Deadline</span>
        {deadline ? (
          <b data-outlook={deadline.promise}>
            <Moment at={deadline.at} exact />
          </b>
        ) : (
          <span className="dim">none</span>
        )}
        <Button
          size="compact-xs"
          variant="subtle"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          {open ? "Cancel" : "Change"}
        </Button>
      </div>
      {deadline && (
        <p className={classes.outlook} data-outlook={deadline.promise}>
          As it looks, {OUTLOOK[deadline.promise as string] ?? deadline.promise}
          {deadline.forecast_at !== undefined && (
            <>
              : the forecast ends <Moment at={deadline.forecast_at} />
            </>
          )}
          .
        </p>
      )}
      {open && (
        <form className={classes.deadline} onSubmit={submit}>
          <TextInput
            size="xs"
            type="datetime-local"
            aria-label="Be done by"
            value={at}
            onChange={(event) => setAt(event.currentTarget.value)}
          />
          <NativeSelect
            size="xs"
            aria-label="What the deadline means"
            data={POLICIES}
            value={policy}
            onChange={(event) => setPolicy(event.currentTarget.value)}
          />
          <div className={classes.buttons}>
            <ActionButton size="xs" type="submit" disabled={timeOf(at) === undefined}>
              Set the deadline
            </ActionButton>
            {deadline && (
              <ActionButton
                size="xs"
                variant="default"
                onClick={() =>
                  void run(
                    unwrap(api.DELETE("/api/v1/transfers/{id}/deadline", { params })),
                    "The deadline is removed.",
                  )
                }
              >
                Remove the deadline
              </ActionButton>
            )}
          </div>
          {error !== null && <ProblemBox error={error} />}
          {outlook?.forecast_at && (
            <p className="dim">
              The forecast ends <Moment at={outlook.forecast_at} />.
            </p>
          )}
        </form>
      )}
    </div>
  );
}

function LabelForm({ view }: { view: TransferView }) {
  const change = useChange(view.id);
  const [text, setText] = useState(view.label ?? "");
  const before = view.label ?? "";
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    try {
      await change(patch(view.id, { label: text.trim() || null }));
      note("The label is changed.");
    } catch (error) {
      noteFault("The label is as it was", error);
    }
  };
  return (
    <div className={classes.part}>
      <span className={classes.label}>Label</span>
      <form className={classes.exact} onSubmit={(event) => void submit(event)}>
        <TextInput
          size="xs"
          aria-label="Label"
          maxLength={200}
          placeholder="A note for lists"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        <ActionButton size="xs" variant="default" type="submit" disabled={text.trim() === before}>
          Set
        </ActionButton>
      </form>
    </div>
  );
}
