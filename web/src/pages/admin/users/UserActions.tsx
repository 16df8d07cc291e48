/** What an administrator can do with a user. */

import { ActionIcon, Button, Menu } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { useMe } from "../../../api/queries";
import { useConfirm } from "../../../ui/ConfirmDialog";
import { formatCount } from "../../../ui/format";
import { IconDelete, IconLink, IconLock, IconMore } from "../../../ui/icons";
import type { User } from "./UsersPage";
import { unchanged } from "./unchanged";

interface Props {
  user: User;
  onEdit: (user: User) => void;
  onInvite: (name: string) => void;
}

/** Returns a count with its noun. */
function some(count: number, one: string): string {
  return `${formatCount(count)} ${count === 1 ? one : `${one}s`}`;
}

export function UserActions({ user, onEdit, onInvite }: Props) {
  const confirm = useConfirm();
  const queries = useQueryClient();
  const isMe = useMe().data?.user === user.name;
  const path = { name: user.name };
  const refresh = () => void queries.invalidateQueries({ queryKey: keys.users });
  const held = `${some(user.sessions, "session")} and ${some(user.tokens, "token")}`;
  const lock = async (disabled: boolean) => {
    const body = { role: user.role as "viewer", disabled };
    const headers = await unchanged(user);
    await unwrap(api.PUT("/api/v1/users/{name}", { params: { path }, body, headers }));
    refresh();
  };
  const askLock = () =>
    confirm({
      title: user.disabled ? `Enable ${user.name}?` : `Disable ${user.name}?`,
      effect: user.disabled ? (
        <p>The password and the tokens count again.</p>
      ) : (
        <p>
          {held} are refused within two seconds. Transfers of {user.name} continue.
        </p>
      ),
      verb: user.disabled ? "Enable" : "Disable",
      keep: "Leave it",
      danger: !user.disabled,
      run: () => lock(!user.disabled),
    });
  const askRemove = () =>
    confirm({
      title: `Remove ${user.name}?`,
      effect: (
        <p>
          The user is removed with {held}, and its grants. Running transfers continue, and its name
          stays in the audit log.
        </p>
      ),
      verb: `Remove ${user.name}`,
      keep: "Keep the user",
      run: async () => {
        await unwrap(api.DELETE("/api/v1/users/{name}", { params: { path } }));
        refresh();
      },
    });
  return (
    <div className="cell-actions">
      <Button
        size="compact-sm"
        variant="default"
        aria-label={`Change ${user.name}`}
        onClick={() => onEdit(user)}
      >
        Change
      </Button>
      <Menu>
        <Menu.Target>
          <ActionIcon variant="default" size={26} aria-label={`More about ${user.name}`}>
            <IconMore size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<IconLink size={16} />} onClick={() => onInvite(user.name)}>
            Link to set a password
          </Menu.Item>
          {!isMe && (
            <>
              <Menu.Item leftSection={<IconLock size={16} />} onClick={askLock}>
                {user.disabled ? "Enable" : "Disable"}
              </Menu.Item>
              <Menu.Divider />
              <Menu.Item color="red" leftSection={<IconDelete size={16} />} onClick={askRemove}>
                Remove
              </Menu.Item>
            </>
          )}
        </Menu.Dropdown>
      </Menu>
    </div>
  );
}
