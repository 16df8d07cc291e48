/** Makes a webhook, or changes one. */

import { Button, Checkbox, Switch, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { ActionButton } from "../../../ui/ActionButton";
import { Dialog } from "../../../ui/Dialog";
import { ProblemBox } from "../../../ui/ProblemBox";
import { kindWord, type Webhook } from "./queries";
import classes from "./WebhooksPage.module.css";

type Kind = Schemas["WebhookKindInput"];

const KINDS: Kind[] = ["transfer.done", "transfer.failed", "transfer.cancelled"];

interface Props {
  opened: boolean;
  /** The webhook to change; absent for a new one. */
  webhook?: Webhook;
  onClose: () => void;
  /** Called with a new webhook, whose secret is shown once. */
  onMade?: (webhook: Webhook) => void;
}

export function WebhookDialog({ opened, webhook, onClose, onMade }: Props) {
  return (
    <Dialog
      opened={opened}
      onClose={onClose}
      title={webhook ? `Change ${webhook.name}` : "New webhook"}
      size="lg"
    >
      <WebhookForm webhook={webhook} onClose={onClose} onMade={onMade} />
    </Dialog>
  );
}

function WebhookForm({ webhook, onClose, onMade }: Omit<Props, "opened">) {
  const [name, setName] = useState(webhook?.name ?? "");
  const [url, setUrl] = useState(webhook?.url ?? "https://");
  const [kinds, setKinds] = useState<Kind[]>(
    webhook?.kinds?.length ? (webhook.kinds as Kind[]) : KINDS,
  );
  const [user, setUser] = useState<string>(webhook?.user ?? "");
  const [paths, setPaths] = useState(webhook?.include_paths ?? false);
  const [on, setOn] = useState(webhook?.disabled !== true);
  const queries = useQueryClient();
  const save = useMutation({
    mutationFn: () => {
      const params = { path: { name: name.trim() } };
      const body = {
        url: url.trim(),
        // All of them are none that is named: kinds of a later release are told, too.
        kinds: kinds.length === KINDS.length ? [] : kinds,
        include_paths: paths,
        disabled: !on,
        ...(user.trim() === "" ? {} : { user: user.trim() }),
      };
      return unwrap(api.PUT("/api/v1/webhooks/{name}", { params, body }));
    },
    onSuccess: (made) => {
      void queries.invalidateQueries({ queryKey: keys.webhooks });
      onClose();
      if (made.secret !== undefined) {
        onMade?.(made);
      }
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const complete = name.trim() !== "" && url.trim().length > "https://".length && kinds.length > 0;
  return (
    <form className="dialog-form" onSubmit={submit}>
      {webhook === undefined && (
        <TextInput
          label="Name"
          placeholder="ops"
          data-autofocus
          autoComplete="off"
          spellCheck={false}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
      )}
      <TextInput
        label="Address"
        description="It must lie below an entry of webhook.allow in the configuration."
        type="url"
        autoComplete="off"
        spellCheck={false}
        value={url}
        onChange={(event) => setUrl(event.currentTarget.value)}
      />
      <Checkbox.Group
        label="It tells of transfers that are"
        value={kinds}
        onChange={(value) => setKinds(value as Kind[])}
      >
        <div className={classes.kinds}>
          {KINDS.map((kind) => (
            <Checkbox key={kind} value={kind} label={kindWord(kind)} />
          ))}
        </div>
      </Checkbox.Group>
      <TextInput
        label="Only of this user"
        placeholder="all users"
        autoComplete="off"
        value={user}
        onChange={(event) => setUser(event.currentTarget.value)}
      />
      <Switch
        label="With the paths of source and target"
        checked={paths}
        onChange={(event) => setPaths(event.currentTarget.checked)}
      />
      {webhook && (
        <Switch label="On" checked={on} onChange={(event) => setOn(event.currentTarget.checked)} />
      )}
      {save.error !== null && <ProblemBox error={save.error} />}
      <div className="dialog-actions">
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <ActionButton type="submit" loading={save.isPending} disabled={!complete}>
          {webhook ? "Save" : "Make webhook"}
        </ActionButton>
      </div>
    </form>
  );
}
