/** Where the caller is logged in. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { ActionButton } from "../../../ui/ActionButton";
import { useConfirm } from "../../../ui/ConfirmDialog";
import { type Column, DataTable } from "../../../ui/DataTable";
import { Loaded } from "../../../ui/Loaded";
import { Panel } from "../../../ui/Panel";
import { Moment } from "../../../ui/Quantity";
import { ToneBadge } from "../../../ui/StateBadge";
import classes from "./AccountPage.module.css";
import { clientName } from "./client-name";

type Session = Schemas["SessionView"];

export function SessionPanel({ user }: { user: string }) {
  const sessions = useQuery({
    queryKey: keys.sessions(user),
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/sessions", { signal })),
  });
  return (
    <Panel title="Sessions" aside="where you are logged in" flush>
      <Loaded query={sessions}>
        {(list) => (
          <DataTable
            label="Sessions"
            rows={list.items}
            rowKey={(session) => session.id}
            columns={COLUMNS}
          />
        )}
      </Loaded>
    </Panel>
  );
}

const COLUMNS: Column<Session>[] = [
  {
    key: "client",
    header: "Program",
    card: "title",
    cell: (session) => (
      <span className={classes.client} title={session.client}>
        {clientName(session.client) || "unknown"}{" "}
        {session.is_current && <ToneBadge tone="accent" label="this one" />}
      </span>
    ),
  },
  { key: "from", header: "From", cell: (session) => session.from },
  {
    key: "made",
    header: "Logged in",
    width: "120px",
    cell: (session) => <Moment at={session.created_at} />,
  },
  {
    key: "ends",
    header: "Ends",
    width: "120px",
    cell: (session) => <Moment at={session.expires_at} />,
  },
  {
    key: "actions",
    header: "Actions",
    quiet: true,
    card: "plain",
    width: "100px",
    cell: (session) => !session.is_current && <End session={session} />,
  },
];

function End({ session }: { session: Session }) {
  const confirm = useConfirm();
  const queries = useQueryClient();
  const name = `${clientName(session.client)} from ${session.from}`;
  const ask = () =>
    confirm({
      title: "End this session?",
      effect: <p>{name} has to log in again, within two seconds.</p>,
      verb: "End session",
      run: async () => {
        const params = { path: { id: session.id } };
        await unwrap(api.DELETE("/api/v1/sessions/{id}", { params }));
        void queries.invalidateQueries({ queryKey: keys.sessions(session.user) });
      },
    });
  return (
    <div className="cell-actions">
      <ActionButton
        size="compact-sm"
        variant="default"
        onClick={ask}
        aria-label={`End the session of ${name}`}
      >
        End
      </ActionButton>
    </div>
  );
}
