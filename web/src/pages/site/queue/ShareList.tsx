/** The use of each user against its share, as bars. */

import { Button, NumberInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { ActionButton } from "../../../ui/ActionButton";
import { Dialog } from "../../../ui/Dialog";
import { EmptyState } from "../../../ui/EmptyState";
import { formatCount, formatShare } from "../../../ui/format";
import { IconUsers } from "../../../ui/icons";
import { Panel } from "../../../ui/Panel";
import { ProblemBox } from "../../../ui/ProblemBox";
import { Bytes } from "../../../ui/Quantity";
import classes from "./QueuePage.module.css";
import { type Share, sharesOf } from "./shares";

/** Use beyond the share from which a bar has the colour of a warning. */
const OVER = 0.1;

export function ShareList({ users }: { users: Schemas["QueueUserView"][] }) {
  const [changed, setChanged] = useState<Share | null>(null);
  const shares = sharesOf(users);
  return (
    <Panel title="Users" aside="recent use against share" flush>
      {shares.length === 0 ? (
        <EmptyState icon={IconUsers} title="Nobody has used the queue recently" />
      ) : (
        <>
          <ul className={classes.list} aria-label="Shares">
            {shares.map((share) => (
              <ShareBar key={share.user} share={share} onChange={() => setChanged(share)} />
            ))}
          </ul>
          <p className={classes.legend}>
            Bars show what was moved; a byte counts half after 12 hours. The line marks the share.
          </p>
        </>
      )}
      <ShareDialog share={changed} onClose={() => setChanged(null)} />
    </Panel>
  );
}

function ShareBar({ share, onChange }: { share: Share; onChange: () => void }) {
  const over = share.used > share.due + OVER;
  return (
    <li className={classes.share}>
      <div className={classes.line}>
        <b>{share.user}</b>
        <span className="dim">
          {formatCount(share.running)} running, {formatCount(share.waiting)} waiting
        </span>
        <Button
          size="compact-xs"
          variant="default"
          onClick={onChange}
          aria-label={`Weight ${share.weight} of ${share.user}`}
        >
          Weight {share.weight}
        </Button>
      </div>
      <div
        className={classes.bar}
        role="img"
        aria-label={`${share.user} has used ${formatShare(share.used)}, its share is ${formatShare(share.due)}`}
      >
        <div
          className={classes.used}
          data-over={over || undefined}
          style={{ width: `${share.used * 100}%` }}
        />
        <div className={classes.due} style={{ left: `calc(${share.due * 100}% - 1px)` }} />
      </div>
      <span className="dim">
        <Bytes value={share.served} /> recently ({formatShare(share.used)}), share{" "}
        {formatShare(share.due)}
        {share.expected > 0 && (
          <>
            , <Bytes value={share.expected} /> to come
          </>
        )}
      </span>
    </li>
  );
}

function ShareDialog({ share, onClose }: { share: Share | null; onClose: () => void }) {
  return (
    <Dialog opened={share !== null} onClose={onClose} title={`Weight of ${share?.user}`}>
      {share && <ShareForm share={share} onClose={onClose} />}
    </Dialog>
  );
}

function ShareForm({ share, onClose }: { share: Share; onClose: () => void }) {
  const [weight, setWeight] = useState<number | string>(share.weight);
  const queries = useQueryClient();
  const save = useMutation({
    mutationFn: () => {
      const params = { path: { user: share.user } };
      const body = { weight: Number(weight) };
      return unwrap(api.PUT("/api/v1/queue/shares/{user}", { params, body }));
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
  return (
    <form className="dialog-form" onSubmit={submit}>
      <NumberInput
        label="Weight"
        description="A user of weight 3 gets as much as three users of weight 1."
        min={1}
        max={1_000}
        allowDecimal={false}
        data-autofocus
        value={weight}
        onChange={setWeight}
      />
      {save.error !== null && <ProblemBox error={save.error} />}
      <div className="dialog-actions">
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <ActionButton type="submit" loading={save.isPending} disabled={!(Number(weight) >= 1)}>
          Set weight
        </ActionButton>
      </div>
    </form>
  );
}
