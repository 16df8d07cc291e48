/** The caller's tokens: what each may do, until when, and how to revoke it. */

import { Button } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { ActionButton } from "../../../ui/ActionButton";
import { useConfirm } from "../../../ui/ConfirmDialog";
import { type Column, DataTable } from "../../../ui/DataTable";
import { EmptyState } from "../../../ui/EmptyState";
import { IconAdd, IconKey } from "../../../ui/icons";
import { Loaded } from "../../../ui/Loaded";
import { Panel } from "../../../ui/Panel";
import { Moment } from "../../../ui/Quantity";
import { scopeWords } from "../../../words";
import { TokenDialog } from "./TokenDialog";

type Token = Schemas["TokenView"];

export function TokenPanel({ user }: { user: string }) {
  const [making, setMaking] = useState(false);
  const tokens = useQuery({
    queryKey: keys.tokens(user),
    queryFn: ({ signal }) => {
      const query = { user };
      return unwrap(api.GET("/api/v1/tokens", { params: { query }, signal }));
    },
  });
  return (
    <Panel
      title="Tokens"
      aside="by which programs act as you"
      flush
      actions={
        <Button
          size="compact-sm"
          leftSection={<IconAdd size={15} />}
          onClick={() => setMaking(true)}
        >
          New token
        </Button>
      }
    >
      <Loaded query={tokens}>
        {(list) => (
          <DataTable
            label="Tokens"
            rows={list.items}
            rowKey={(token) => token.id}
            columns={COLUMNS}
            empty={
              <EmptyState icon={IconKey} title="You have no token">
                A script that moves data needs one.
              </EmptyState>
            }
          />
        )}
      </Loaded>
      <TokenDialog opened={making} onClose={() => setMaking(false)} />
    </Panel>
  );
}

/** Returns what a token may do, in a few words. */
export function scopesWords(scopes: readonly string[] | null | undefined): string {
  if (scopes === undefined || scopes === null) {
    return "all that you may";
  }
  return scopes.length === 0 ? "nothing" : scopes.map(scopeWords).join("; ");
}

const COLUMNS: Column<Token>[] = [
  {
    key: "label",
    header: "Label",
    card: "title",
    width: "22%",
    cell: (token) => token.label || token.id,
  },
  { key: "scopes", header: "May do", cell: (token) => scopesWords(token.scopes) },
  {
    key: "made",
    header: "Made",
    width: "110px",
    cell: (token) => <Moment at={token.created_at} />,
  },
  {
    key: "ends",
    header: "Expires",
    width: "110px",
    cell: (token) => <Moment at={token.expires_at} />,
  },
  {
    key: "actions",
    header: "Actions",
    quiet: true,
    card: "plain",
    width: "100px",
    cell: (token) => <Revoke token={token} />,
  },
];

function Revoke({ token }: { token: Token }) {
  const confirm = useConfirm();
  const queries = useQueryClient();
  const name = token.label || token.id;
  const ask = () =>
    confirm({
      title: `Revoke ${name}?`,
      effect: (
        <p>Every peer refuses it within two seconds. Programs that use it lose their way in.</p>
      ),
      verb: "Revoke",
      keep: "Keep the token",
      run: async () => {
        const params = { path: { id: token.id } };
        await unwrap(api.DELETE("/api/v1/tokens/{id}", { params }));
        void queries.invalidateQueries({ queryKey: keys.tokens(token.user) });
      },
    });
  return (
    <div className="cell-actions">
      <ActionButton size="compact-sm" variant="default" onClick={ask} aria-label={`Revoke ${name}`}>
        Revoke
      </ActionButton>
    </div>
  );
}
