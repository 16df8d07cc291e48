/** The users of the site: their roles and grants, their links, and what they hold. */

import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { type Column, DataTable } from "../../../ui/DataTable";
import { formatCount } from "../../../ui/format";
import { IconAdd } from "../../../ui/icons";
import { Loaded } from "../../../ui/Loaded";
import { PageHeader } from "../../../ui/PageHeader";
import { Panel } from "../../../ui/Panel";
import { ToneBadge } from "../../../ui/StateBadge";
import { roleWords } from "../../../words";
import { InviteDialog } from "./InviteDialog";
import { UserActions } from "./UserActions";
import { UserDialog } from "./UserDialog";
import classes from "./UsersPage.module.css";

export type User = Schemas["UserView"];

/** The user to change, `new`, or none. */
type Edited = User | "new" | null;

export function UsersPage() {
  const users = useQuery({
    queryKey: keys.users,
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/users", { signal })),
  });
  const [edited, setEdited] = useState<Edited>(null);
  const [invited, setInvited] = useState<string | null>(null);
  return (
    <>
      <PageHeader
        title="Users"
        subtitle="Who may use this site, and what for."
        actions={
          <Button leftSection={<IconAdd size={17} />} onClick={() => setEdited("new")}>
            New user
          </Button>
        }
      />
      <div className="page-parts">
        <Panel title="Users" aside={users.data && formatCount(users.data.items.length)} flush>
          <Loaded query={users} lines={6}>
            {(list) => (
              <DataTable
                label="Users"
                rows={list.items}
                rowKey={(user) => user.name}
                columns={columns(setEdited, setInvited)}
              />
            )}
          </Loaded>
        </Panel>
        <Panel title="Roles">
          <dl className={classes.roles}>
            {["viewer", "user", "operator", "administrator"].map((role) => (
              <div key={role}>
                <dt>{role}</dt>
                <dd>{roleWords(role)}</dd>
              </div>
            ))}
          </dl>
        </Panel>
      </div>
      <UserDialog user={edited} onClose={() => setEdited(null)} onMade={setInvited} />
      <InviteDialog user={invited} onClose={() => setInvited(null)} />
    </>
  );
}

/** Returns grants in words: `raw: read · scratch: read, write`. */
export function grantWords(grants: User["grants"]): string {
  return Object.entries(grants)
    .map(([store, grant]) => {
      const words = (["list", "read", "write"] as const).filter((right) => grant[right]);
      return `${store}: ${words.join(", ") || "nothing"}`;
    })
    .join(" · ");
}

function columns(edit: (user: User) => void, invite: (name: string) => void): Column<User>[] {
  return [
    {
      key: "name",
      header: "Name",
      card: "title",
      cell: (user) => (
        <span className={classes.name}>
          {user.name}
          {user.disabled && <ToneBadge tone="bad" label="disabled" />}
          {!user.has_password && !user.disabled && <ToneBadge tone="dim" label="no password" />}
        </span>
      ),
    },
    { key: "role", header: "Role", width: "130px", cell: (user) => user.role },
    {
      key: "grants",
      header: "Stores",
      cell: (user) =>
        user.role === "operator" || user.role === "administrator"
          ? "all"
          : grantWords(user.grants) || "none",
    },
    {
      key: "account",
      header: "Account",
      width: "100px",
      cell: (user) => user.account ?? "–",
    },
    {
      key: "sessions",
      header: "Sessions",
      align: "right",
      width: "90px",
      cell: (user) => formatCount(user.sessions),
    },
    {
      key: "tokens",
      header: "Tokens",
      align: "right",
      width: "80px",
      cell: (user) => formatCount(user.tokens),
    },
    {
      key: "actions",
      header: "Actions",
      quiet: true,
      card: "plain",
      width: "210px",
      cell: (user) => <UserActions user={user} onEdit={edit} onInvite={invite} />,
    },
  ];
}
