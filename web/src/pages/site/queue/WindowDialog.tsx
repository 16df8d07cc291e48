/** Makes a window of the week, or changes one. */

import { Button, Checkbox, NativeSelect, NumberInput, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { ActionButton } from "../../../ui/ActionButton";
import { Dialog } from "../../../ui/Dialog";
import { parseRate, rateText } from "../../../ui/field-text";
import { ProblemBox } from "../../../ui/ProblemBox";
import classes from "./QueuePage.module.css";
import { DAY_NAMES, DAYS, type Day } from "./week";

type Scope = "site" | "pair" | "store" | "user";

export interface Draft {
  /** Set for a window that is there already. */
  known: boolean;
  name: string;
  days: Day[];
  from: string;
  to: string;
  zone: string;
  scope: Scope;
  object: string;
  running: number | string;
  rate: string;
}

export const NEW_WINDOW: Draft = {
  known: false,
  name: "",
  days: ["mon", "tue", "wed", "thu", "fri"],
  from: "08:00",
  to: "18:00",
  zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  scope: "site",
  object: "",
  running: "",
  rate: "",
};

export function draftOf(window: Schemas["QueueWindow"]): Draft {
  const { pair, store, user } = window;
  return {
    known: true,
    name: window.name,
    days: window.days as Day[],
    from: window.from,
    to: window.to,
    zone: window.zone,
    scope: pair ? "pair" : store ? "store" : user ? "user" : "site",
    object: pair ?? store ?? user ?? "",
    running: window.running ?? "",
    rate: window.rate_bits_per_s === undefined ? "" : rateText(window.rate_bits_per_s),
  };
}

export function WindowDialog({ draft, onClose }: { draft: Draft | null; onClose: () => void }) {
  return (
    <Dialog
      opened={draft !== null}
      onClose={onClose}
      title={draft?.known ? `Change the window ${draft.name}` : "New window"}
      size="lg"
    >
      {draft && <WindowForm initial={draft} onClose={onClose} />}
    </Dialog>
  );
}

function requestOf(draft: Draft, rate: number | null): Schemas["QueueWindowRequest"] {
  const object = draft.object.trim();
  return {
    days: draft.days,
    from: draft.from,
    to: draft.to,
    zone: draft.zone.trim(),
    running: draft.running === "" ? null : Number(draft.running),
    rate_bits_per_s: rate,
    ...(draft.scope === "site" ? {} : { [draft.scope]: object }),
  };
}

function WindowForm({ initial, onClose }: { initial: Draft; onClose: () => void }) {
  const [draft, setDraft] = useState(initial);
  const change = (part: Partial<Draft>) => setDraft({ ...draft, ...part });
  const queries = useQueryClient();
  const rate = draft.rate.trim() === "" ? null : parseRate(draft.rate);
  const save = useMutation({
    mutationFn: () => {
      const params = { path: { name: draft.name.trim() } };
      const body = requestOf(draft, rate ?? null);
      return unwrap(api.PUT("/api/v1/queue/windows/{name}", { params, body }));
    },
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: keys.queue });
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const limits = draft.running !== "" || (rate !== null && rate !== undefined);
  const named = draft.name.trim() !== "" && (draft.scope === "site" || draft.object.trim() !== "");
  const complete = named && limits && rate !== undefined && draft.days.length > 0;
  return (
    <form className="dialog-form" onSubmit={submit}>
      <TextInput
        label="Name"
        placeholder="office"
        data-autofocus={!initial.known || undefined}
        autoComplete="off"
        disabled={initial.known}
        value={draft.name}
        onChange={(event) => change({ name: event.currentTarget.value })}
      />
      <When draft={draft} change={change} />
      <Which draft={draft} change={change} />
      <div className={classes.rows}>
        <NumberInput
          label="Transfers at a time"
          description="0: none runs, what does is stopped"
          min={0}
          allowDecimal={false}
          placeholder="no other limit"
          value={draft.running}
          onChange={(running) => change({ running })}
        />
        <TextInput
          label="Rate of all together"
          description="As 2 Gbit/s or 500 MB/s"
          placeholder="no other limit"
          error={rate === undefined && "This is no rate"}
          value={draft.rate}
          onChange={(event) => change({ rate: event.currentTarget.value })}
        />
      </div>
      {save.error !== null && <ProblemBox error={save.error} />}
      <div className="dialog-actions">
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <ActionButton type="submit" loading={save.isPending} disabled={!complete}>
          {initial.known ? "Change window" : "Make window"}
        </ActionButton>
      </div>
    </form>
  );
}

interface PartProps {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
}

function When({ draft, change }: PartProps) {
  return (
    <>
      <Checkbox.Group
        label="Days on which it begins"
        value={draft.days}
        onChange={(days) => change({ days: days as Day[] })}
      >
        <div className={classes.days}>
          {DAYS.map((day) => (
            <Checkbox key={day} value={day} label={DAY_NAMES[day]} />
          ))}
        </div>
      </Checkbox.Group>
      <div className={classes.rows}>
        <TextInput
          type="time"
          label="From"
          value={draft.from}
          onChange={(event) => change({ from: event.currentTarget.value })}
        />
        <TextInput
          type="time"
          label="To"
          value={draft.to}
          onChange={(event) => change({ to: event.currentTarget.value })}
        />
        <TextInput
          label="Time zone"
          value={draft.zone}
          onChange={(event) => change({ zone: event.currentTarget.value })}
        />
      </div>
    </>
  );
}

function Which({ draft, change }: PartProps) {
  return (
    <div className={classes.rows}>
      <NativeSelect
        label="Limits transfers of"
        value={draft.scope}
        onChange={(event) => change({ scope: event.currentTarget.value as Scope })}
        data={[
          { value: "site", label: "the whole site" },
          { value: "pair", label: "a paired site" },
          { value: "store", label: "a store" },
          { value: "user", label: "a user" },
        ]}
      />
      {draft.scope !== "site" && (
        <TextInput
          label={`Name of the ${draft.scope === "pair" ? "site" : draft.scope}`}
          autoComplete="off"
          value={draft.object}
          onChange={(event) => change({ object: event.currentTarget.value })}
        />
      )}
    </div>
  );
}
