/** Limits of the site, of pairs, stores and users, with their use. */

import { Button, NativeSelect, NumberInput, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { useStatus } from "../../../api/queries";
import { ActionButton } from "../../../ui/ActionButton";
import { useConfirm } from "../../../ui/ConfirmDialog";
import { type Column, DataTable } from "../../../ui/DataTable";
import { Dialog } from "../../../ui/Dialog";
import { parseRate, rateText } from "../../../ui/field-text";
import { formatCount } from "../../../ui/format";
import { IconAdd } from "../../../ui/icons";
import { Panel } from "../../../ui/Panel";
import { ProblemBox } from "../../../ui/ProblemBox";
import { Rate } from "../../../ui/Quantity";
import classes from "./QueuePage.module.css";

type Limit = Schemas["QueueLimitView"];
type Kind = Schemas["LimitKindInput"];

interface Draft {
  kind: Kind;
  name: string;
  running: number | string;
  rate: string;
}

const NEW: Draft = { kind: "pair", name: "", running: "", rate: "" };

export function LimitPanel({ limits }: { limits: Limit[] }) {
  const [draft, setDraft] = useState<Draft | null>(null);
  return (
    <Panel
      title="Limits"
      flush
      actions={
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconAdd size={15} />}
          onClick={() => setDraft(NEW)}
        >
          Limit
        </Button>
      }
    >
      <DataTable
        label="Limits"
        rows={limits}
        rowKey={(limit) => `${limit.kind} ${limit.name}`}
        empty={<p className={classes.pad}>There is no limit.</p>}
        columns={columns(setDraft)}
      />
      <Dialog opened={draft !== null} onClose={() => setDraft(null)} title="Set a limit">
        {draft && <LimitForm initial={draft} onClose={() => setDraft(null)} />}
      </Dialog>
    </Panel>
  );
}

function columns(edit: (draft: Draft) => void): Column<Limit>[] {
  return [
    {
      key: "of",
      header: "Limit of",
      card: "title",
      cell: (limit) => (
        <span>
          {limit.kind} <b>{limit.name}</b>
          {limit.by_window && (
            <span className={classes.under}>now by the window {limit.by_window}</span>
          )}
        </span>
      ),
    },
    {
      key: "running",
      header: "Transfers",
      align: "right",
      cell: (limit) =>
        limit.running === undefined
          ? formatCount(limit.running_now)
          : `${formatCount(limit.running_now)} of ${formatCount(limit.running)}`,
    },
    {
      key: "rate",
      header: "Rate",
      align: "right",
      cell: (limit) => (
        <span>
          <Rate value={limit.rate_now_bits_per_s} />
          {limit.rate_bits_per_s !== undefined && (
            <>
              {" "}
              of <Rate value={limit.rate_bits_per_s} />
            </>
          )}
        </span>
      ),
    },
    {
      key: "actions",
      header: "Actions",
      quiet: true,
      card: "plain",
      cell: (limit) => <Actions limit={limit} edit={edit} />,
    },
  ];
}

function Actions({ limit, edit }: { limit: Limit; edit: (draft: Draft) => void }) {
  const confirm = useConfirm();
  const queries = useQueryClient();
  const name = `${limit.kind} ${limit.name}`;
  const change = () =>
    edit({
      kind: limit.kind as Kind,
      name: limit.name,
      running: limit.running ?? "",
      rate: limit.rate_bits_per_s === undefined ? "" : rateText(limit.rate_bits_per_s),
    });
  const remove = () =>
    confirm({
      title: `Remove the limit of ${name}?`,
      effect: (
        <p>
          {limit.kind === "site"
            ? "The number of transfers of the configuration holds again."
            : "Its transfers use what others leave. What waits for it may start at once."}
        </p>
      ),
      verb: "Remove the limit",
      danger: false,
      run: async () => {
        const path = { kind: limit.kind as Kind, name: limit.name };
        await unwrap(api.DELETE("/api/v1/queue/limits/{kind}/{name}", { params: { path } }));
        void queries.invalidateQueries({ queryKey: keys.queue });
      },
    });
  return (
    <div className="cell-actions">
      {/* What a window sets for now is not what would be changed. */}
      {limit.by_window === undefined && (
        <Button
          size="compact-sm"
          variant="default"
          aria-label={`Change the limit of ${name}`}
          onClick={change}
        >
          Change
        </Button>
      )}
      {limit.kind !== "site" && (
        <ActionButton
          size="compact-sm"
          variant="default"
          aria-label={`Remove the limit of ${name}`}
          onClick={remove}
        >
          Remove
        </ActionButton>
      )}
    </div>
  );
}

function LimitForm({ initial, onClose }: { initial: Draft; onClose: () => void }) {
  const [draft, setDraft] = useState(initial);
  const own = useStatus().data?.site.name ?? "";
  const queries = useQueryClient();
  const rate = draft.rate.trim() === "" ? null : parseRate(draft.rate);
  const name = draft.kind === "site" ? own : draft.name.trim();
  const running = draft.running === "" ? null : Number(draft.running);
  const save = useMutation({
    mutationFn: () => {
      const path = { kind: draft.kind, name };
      const body = { running, rate_bits_per_s: rate };
      return unwrap(api.PUT("/api/v1/queue/limits/{kind}/{name}", { params: { path }, body }));
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
  const complete = name !== "" && rate !== undefined && (running !== null || rate !== null);
  return (
    <form className="dialog-form" onSubmit={submit}>
      <div className={classes.rows}>
        <NativeSelect
          label="Of"
          value={draft.kind}
          disabled={initial.name !== ""}
          onChange={(event) => setDraft({ ...draft, kind: event.currentTarget.value as Kind })}
          data={[
            { value: "site", label: "the whole site" },
            { value: "pair", label: "a paired site" },
            { value: "store", label: "a store" },
            { value: "user", label: "a user" },
          ]}
        />
        {draft.kind !== "site" && (
          <TextInput
            label="Name"
            description={draft.kind === "user" ? "@SITE for the users of a paired site" : undefined}
            data-autofocus
            autoComplete="off"
            disabled={initial.name !== ""}
            value={draft.name}
            onChange={(event) => setDraft({ ...draft, name: event.currentTarget.value })}
          />
        )}
      </div>
      <div className={classes.rows}>
        <NumberInput
          label="Transfers at a time"
          min={1}
          allowDecimal={false}
          placeholder="no limit"
          value={draft.running}
          onChange={(value) => setDraft({ ...draft, running: value })}
        />
        <TextInput
          label="Rate of all together"
          placeholder="no limit"
          error={rate === undefined && "As 2 Gbit/s or 500 MB/s"}
          value={draft.rate}
          onChange={(event) => setDraft({ ...draft, rate: event.currentTarget.value })}
        />
      </div>
      <p className="dim">What runs already is not stopped by a lower number.</p>
      {save.error !== null && <ProblemBox error={save.error} />}
      <div className="dialog-actions">
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <ActionButton type="submit" loading={save.isPending} disabled={!complete}>
          Set limit
        </ActionButton>
      </div>
    </form>
  );
}
