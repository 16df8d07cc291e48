/** Holds the transfers that fit a filter. */

import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { ActionButton } from "../../../ui/ActionButton";
import { Dialog } from "../../../ui/Dialog";
import { ProblemBox } from "../../../ui/ProblemBox";
import classes from "./QueuePage.module.css";

const HOURS = [
  { value: "", label: "It is released" },
  { value: "1", label: "In 1 hour" },
  { value: "4", label: "In 4 hours" },
  { value: "12", label: "In 12 hours" },
  { value: "24", label: "In 1 day" },
  { value: "72", label: "In 3 days" },
];

const NEW = { name: "", user: "", site: "", store: "", label: "", reason: "", hours: "" };

export function HoldDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  return (
    <Dialog opened={opened} onClose={onClose} title="Hold transfers">
      <HoldForm onClose={onClose} />
    </Dialog>
  );
}

/** Returns the fields that say something. */
function filled(fields: Record<string, string>): Record<string, string> {
  const entries = Object.entries(fields).map(([key, value]) => [key, value.trim()] as const);
  return Object.fromEntries(entries.filter(([, value]) => value !== ""));
}

function HoldForm({ onClose }: { onClose: () => void }) {
  const [draft, setDraft] = useState(NEW);
  const queries = useQueryClient();
  const { name, reason, hours, ...rest } = draft;
  const filter = filled(rest);
  const save = useMutation({
    mutationFn: () => {
      const end = new Date(Date.now() + Number(hours) * 3_600_000).toISOString();
      const params = { path: { name: name.trim() } };
      const body = { filter, reason: reason.trim(), ...(hours === "" ? {} : { until: end }) };
      return unwrap(api.PUT("/api/v1/queue/pause-rules/{name}", { params, body }));
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
  const text = (key: keyof typeof NEW, label: string, more: object = {}) => (
    <TextInput
      label={label}
      autoComplete="off"
      value={draft[key]}
      onChange={(event) => setDraft({ ...draft, [key]: event.currentTarget.value })}
      {...more}
    />
  );
  const all = Object.keys(filter).length === 0;
  return (
    <form className="dialog-form" onSubmit={submit}>
      {text("name", "Name of the hold", { placeholder: "upgrade", "data-autofocus": true })}
      <div className={classes.rows}>
        {text("user", "Of the user")}
        {text("site", "With the site")}
        {text("store", "Of the store")}
        {text("label", "With this in the label")}
      </div>
      {text("reason", "Reason, which their users see", { maxLength: 200 })}
      <NativeSelect
        label="It ends"
        data={HOURS}
        value={hours}
        onChange={(event) => setDraft({ ...draft, hours: event.currentTarget.value })}
      />
      <p className="dim">
        {all
          ? "Without a choice it holds all transfers of the site. "
          : "It holds transfers that fit all of this. "}
        Those that run are stopped, keep their progress, and resume when it ends.
      </p>
      {save.error !== null && <ProblemBox error={save.error} />}
      <div className="dialog-actions">
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <ActionButton type="submit" loading={save.isPending} disabled={name.trim() === ""}>
          {all ? "Hold all transfers" : "Hold"}
        </ActionButton>
      </div>
    </form>
  );
}
