/** Makes a token, and shows its text once. */

import { Button, Checkbox, NativeSelect, Switch, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { PROGRAM_URL } from "../../../base";
import { ActionButton } from "../../../ui/ActionButton";
import { CommandBox } from "../../../ui/Copy";
import { Dialog } from "../../../ui/Dialog";
import { ProblemBox } from "../../../ui/ProblemBox";
import { Moment } from "../../../ui/Quantity";
import { scopeWords } from "../../../words";
import classes from "./AccountPage.module.css";

type Scope = Schemas["ScopeInput"];

const SCOPES: Scope[] = [
  "transfers:read",
  "transfers:write",
  "stores:list",
  "site:read",
  "site:operate",
  "site:admin",
  "audit:read",
  "metrics:read",
];

const DAYS = [
  { value: "7", label: "In 7 days" },
  { value: "30", label: "In 30 days" },
  { value: "90", label: "In 90 days" },
  { value: "366", label: "In a year" },
];

export function TokenDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  return (
    <Dialog opened={opened} onClose={onClose} title="New token" careful size="lg">
      <TokenForm onClose={onClose} />
    </Dialog>
  );
}

function TokenForm({ onClose }: { onClose: () => void }) {
  const [label, setLabel] = useState("");
  const [days, setDays] = useState("90");
  const [whole, setWhole] = useState(true);
  const [scopes, setScopes] = useState<Scope[]>(["transfers:read", "transfers:write"]);
  const queries = useQueryClient();
  const make = useMutation({
    mutationFn: () => {
      const body = { label: label.trim(), days: Number(days), scopes: whole ? null : scopes };
      return unwrap(api.POST("/api/v1/tokens", { body }));
    },
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["tokens"] }),
  });
  if (make.data) {
    return <NewToken token={make.data} onClose={onClose} />;
  }
  const submit = (event: FormEvent) => {
    event.preventDefault();
    make.mutate();
  };
  return (
    <form className="dialog-form" onSubmit={submit}>
      <TextInput
        label="Label"
        placeholder="nightly copy on node7"
        description="So that you know it again."
        data-autofocus
        maxLength={100}
        value={label}
        onChange={(event) => setLabel(event.currentTarget.value)}
      />
      <NativeSelect
        label="It expires"
        data={DAYS}
        value={days}
        onChange={(event) => setDays(event.currentTarget.value)}
      />
      <Switch
        label="It may do all that you may"
        checked={whole}
        onChange={(event) => setWhole(event.currentTarget.checked)}
      />
      {!whole && (
        <Checkbox.Group
          label="It may"
          value={scopes}
          onChange={(value) => setScopes(value as Scope[])}
        >
          <div className={classes.scopes}>
            {SCOPES.map((scope) => (
              <Checkbox key={scope} value={scope} label={scopeWords(scope)} />
            ))}
          </div>
        </Checkbox.Group>
      )}
      {make.error !== null && <ProblemBox error={make.error} />}
      <div className="dialog-actions">
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <ActionButton
          type="submit"
          loading={make.isPending}
          disabled={!whole && scopes.length === 0}
        >
          Create
        </ActionButton>
      </div>
    </form>
  );
}

function NewToken({ token, onClose }: { token: Schemas["TokenView"]; onClose: () => void }) {
  return (
    <div className="dialog-form">
      <p role="status">
        This is its text. It is shown only now: put it into a file that nobody else can read. It
        expires <Moment at={token.expires_at} />.
      </p>
      <CommandBox command={token.token ?? ""} label="Copy the token" />
      <p className="dim">A program takes it by its environment:</p>
      <CommandBox command={`export PENSTOCK_URL=${PROGRAM_URL} PENSTOCK_TOKEN_FILE=token`} />
      <div className="dialog-actions">
        <Button onClick={onClose}>Done</Button>
      </div>
    </div>
  );
}
