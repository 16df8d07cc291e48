/** Makes a user, or changes its role, its grants and its account. */

import { Button, Checkbox, NativeSelect, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { useStores } from "../../../api/site-queries";
import { ActionButton } from "../../../ui/ActionButton";
import { Dialog } from "../../../ui/Dialog";
import { ProblemBox } from "../../../ui/ProblemBox";
import { roleWords } from "../../../words";
import type { User } from "./UsersPage";
import classes from "./UsersPage.module.css";
import { unchanged } from "./unchanged";

type Role = Schemas["RoleInput"];
type Grant = Schemas["StoreGrant"];

const ROLES: Role[] = ["viewer", "user", "operator", "administrator"];
const NO_GRANT: Grant = { list: false, read: false, write: false };

interface Props {
  user: User | "new" | null;
  onClose: () => void;
  /** Called with the name of a new user, so that it gets its link. */
  onMade: (name: string) => void;
}

export function UserDialog({ user, onClose, onMade }: Props) {
  const isNew = user === "new";
  return (
    <Dialog
      opened={user !== null}
      onClose={onClose}
      title={isNew ? "New user" : `Change ${user?.name}`}
      size="lg"
    >
      {user !== null && (
        <UserForm user={isNew ? undefined : user} onClose={onClose} onMade={onMade} />
      )}
    </Dialog>
  );
}

interface FormProps extends Omit<Props, "user"> {
  user?: User;
}

function UserForm({ user, onClose, onMade }: FormProps) {
  const [name, setName] = useState(user?.name ?? "");
  const [role, setRole] = useState<Role>((user?.role as Role | undefined) ?? "user");
  const [grants, setGrants] = useState<Record<string, Grant>>(user?.grants ?? {});
  const [account, setAccount] = useState(user?.account ?? "");
  const queries = useQueryClient();
  const save = useMutation({
    mutationFn: async () => {
      const headers = user === undefined ? {} : await unchanged(user);
      const given = Object.entries(grants).filter(([, one]) => one.list || one.read || one.write);
      const params = { path: { name: name.trim() } };
      const body = {
        role,
        account: account.trim(),
        grants: Object.fromEntries(given),
        disabled: user?.disabled ?? false,
      };
      return unwrap(api.PUT("/api/v1/users/{name}", { params, body, headers }));
    },
    onSuccess: (made) => {
      void queries.invalidateQueries({ queryKey: keys.users });
      onClose();
      if (user === undefined) {
        onMade(made.name);
      }
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const needsGrants = role === "viewer" || role === "user";
  return (
    <form className="dialog-form" onSubmit={submit}>
      {user === undefined && (
        <TextInput
          label="Name"
          data-autofocus
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
      )}
      <NativeSelect
        label="Role"
        description={`A ${role} ${roleWords(role)}.`
          .replace("A user", "A user")
          .replace(/^A ([aeio])/, "An $1")}
        data={ROLES}
        value={role}
        onChange={(event) => setRole(event.currentTarget.value as Role)}
      />
      {needsGrants && <Grants grants={grants} onChange={setGrants} />}
      <TextInput
        label="Account of the hosts"
        description="As which its transfers use mapped stores; empty for none."
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        value={account}
        onChange={(event) => setAccount(event.currentTarget.value)}
      />
      {save.error !== null && <ProblemBox error={save.error} />}
      <div className="dialog-actions">
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <ActionButton type="submit" loading={save.isPending} disabled={name.trim() === ""}>
          {user === undefined ? "Make user" : "Save"}
        </ActionButton>
      </div>
    </form>
  );
}

interface GrantsProps {
  grants: Record<string, Grant>;
  onChange: (grants: Record<string, Grant>) => void;
}

function Grants({ grants, onChange }: GrantsProps) {
  const known = (useStores().data?.items ?? []).map((store) => store.name);
  const stores = [...new Set([...known, ...Object.keys(grants)])].sort();
  const set = (store: string, right: keyof Grant, given: boolean) => {
    const before = grants[store] ?? NO_GRANT;
    onChange({ ...grants, [store]: { ...before, [right]: given } });
  };
  return (
    <table className={classes.grants}>
      <caption>Stores of this site that it may use</caption>
      <thead>
        <tr>
          <th scope="col">Store</th>
          <th scope="col">List</th>
          <th scope="col">Read</th>
          <th scope="col">Write</th>
        </tr>
      </thead>
      <tbody>
        {stores.map((store) => {
          const grant = grants[store] ?? NO_GRANT;
          return (
            <tr key={store}>
              <th scope="row">{store}</th>
              {(["list", "read", "write"] as const).map((right) => (
                <td key={right}>
                  <Checkbox
                    aria-label={`${right} ${store}`}
                    // Who may read may list, too.
                    checked={grant[right] || (right === "list" && grant.read)}
                    disabled={right === "list" && grant.read}
                    onChange={(event) => set(store, right, event.currentTarget.checked)}
                  />
                </td>
              ))}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
