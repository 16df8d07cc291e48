/** Pauses a transfer until a time, at which it resumes by itself. */

import { Button, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, unwrap } from "../../api/client";
import { keys } from "../../api/keys";
import { ActionButton } from "../../ui/ActionButton";
import { Dialog } from "../../ui/Dialog";
import { localOf, timeOf } from "../../ui/field-text";
import { formatMoment } from "../../ui/format";
import { ProblemBox } from "../../ui/ProblemBox";
import { nameOf } from "../overview/attention";
import classes from "./PauseDialog.module.css";
import { note, type Steered } from "./steer";

const HOUR_MS = 3_600_000;

/** Returns eight in the morning of the next day. */
function morning(now: number): number {
  const at = new Date(now);
  at.setDate(at.getDate() + 1);
  return at.setHours(8, 0, 0, 0);
}

const CHOICES: readonly { label: string; end: (now: number) => number }[] = [
  { label: "1 hour", end: (now) => now + HOUR_MS },
  { label: "4 hours", end: (now) => now + 4 * HOUR_MS },
  { label: "Tomorrow at 8:00", end: morning },
];

interface Props {
  transfer: Steered;
  onClose: () => void;
}

export function PauseDialog({ transfer, onClose }: Props) {
  const { id, state, waiting } = transfer;
  const queries = useQueryClient();
  const [at, setAt] = useState(localOf(waiting?.until ?? Date.now() + HOUR_MS));
  const [error, setError] = useState<unknown>(null);
  const typed = timeOf(at);
  const pause = async (until: string) => {
    setError(null);
    try {
      const params = { path: { id }, query: { until } };
      await unwrap(api.POST("/api/v1/transfers/{id}/pause", { params }));
      await queries.invalidateQueries({ queryKey: keys.transfers });
      note(`Paused ${nameOf(transfer)} until ${formatMoment(Date.parse(until))}.`);
      onClose();
    } catch (why) {
      setError(why);
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (typed !== undefined) {
      void pause(typed);
    }
  };
  return (
    <Dialog opened onClose={onClose} title={`Pause ${nameOf(transfer)} until`}>
      <form className="dialog-form" onSubmit={submit}>
        <div className={classes.choices}>
          {CHOICES.map(({ label, end }) => (
            <ActionButton
              key={label}
              variant="default"
              onClick={() => void pause(new Date(end(Date.now())).toISOString())}
            >
              {label}
            </ActionButton>
          ))}
        </div>
        <TextInput
          type="datetime-local"
          label="Another time"
          description={
            state === "paused"
              ? "It resumes by itself then. Resume it yourself at any time before."
              : "What is done stays. It resumes by itself then, and waits for its turn."
          }
          value={at}
          onChange={(event) => setAt(event.currentTarget.value)}
        />
        {error !== null && <ProblemBox error={error} />}
        <div className="dialog-actions">
          <Button variant="default" onClick={onClose}>
            {state === "paused" ? "Leave it" : "Do not pause"}
          </Button>
          <ActionButton type="submit" disabled={typed === undefined}>
            Pause until then
          </ActionButton>
        </div>
      </form>
    </Dialog>
  );
}
