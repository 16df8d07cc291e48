/** The saved views of the list: to open one, to save the filter as one, to remove one. */

import { Button, Menu, TextInput } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { type FormEvent, useState } from "react";
import { useMe } from "../../../api/queries";
import { Dialog } from "../../../ui/Dialog";
import { IconAdd, IconDelete, IconDown, IconFilter } from "../../../ui/icons";
import { note } from "../steer";
import { NAME_MAX, parseViews, VIEWS_MAX, type View, viewsKey, withView } from "./views";

interface Props {
  /** The address of the filter of now; `/transfers` is none. */
  address: string;
  onOpen: (address: string) => void;
}

export function ViewMenu(props: Props) {
  const user = useMe().data?.user;
  return user === undefined ? null : <UserViews key={user} user={user} {...props} />;
}

function UserViews({ user, address, onOpen }: Props & { user: string }) {
  const [views, setViews] = useLocalStorage<View[]>({
    key: viewsKey(user),
    defaultValue: [],
    getInitialValueInEffect: false,
    deserialize: parseViews,
  });
  const [saves, setSaves] = useState(false);
  const here = views.find((view) => view.address === address);
  const isFull = views.length >= VIEWS_MAX;
  const save = (name: string) => {
    setSaves(false);
    setViews(withView(views, { name, address }));
    note(`The view “${name}” is saved in this browser.`);
  };
  const remove = (view: View) => {
    setViews(views.filter((one) => one.name !== view.name));
    note(`The view “${view.name}” is removed.`, () => setViews((now) => withView(now, view)));
  };
  return (
    <>
      <Menu>
        <Menu.Target>
          <Button
            variant="default"
            leftSection={<IconFilter size={16} />}
            rightSection={<IconDown size={14} />}
          >
            {here?.name ?? "Views"}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {views.map((view) => (
            <Menu.Item
              key={view.name}
              aria-current={view === here || undefined}
              fw={view === here ? 600 : undefined}
              onClick={() => onOpen(view.address)}
            >
              {view.name}
            </Menu.Item>
          ))}
          {views.length === 0 && <Menu.Item disabled>No view is saved yet</Menu.Item>}
          <Menu.Divider />
          <Menu.Item
            leftSection={<IconAdd size={16} />}
            disabled={address === "/transfers" || isFull}
            onClick={() => setSaves(true)}
          >
            {isFull ? `At most ${VIEWS_MAX} views` : "Save this filter…"}
          </Menu.Item>
          {here && (
            <Menu.Item leftSection={<IconDelete size={16} />} onClick={() => remove(here)}>
              Remove “{here.name}”
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
      <Dialog opened={saves} onClose={() => setSaves(false)} title="Save this filter as a view">
        <SaveForm views={views} onSave={save} onClose={() => setSaves(false)} />
      </Dialog>
    </>
  );
}

interface SaveProps {
  views: readonly View[];
  onSave: (name: string) => void;
  onClose: () => void;
}

function SaveForm({ views, onSave, onClose }: SaveProps) {
  const [text, setText] = useState("");
  const name = text.trim();
  const replaces = views.some((view) => view.name === name);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name !== "") {
      onSave(name);
    }
  };
  return (
    <form className="dialog-form" onSubmit={submit}>
      <TextInput
        label="Name of the view"
        description="It is kept in this browser, for you alone. To share the filter, send its address."
        data-autofocus
        maxLength={NAME_MAX}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      <div className="dialog-actions">
        <Button variant="default" onClick={onClose}>
          Not now
        </Button>
        <Button type="submit" disabled={name === ""}>
          {replaces ? "Replace the view" : "Save the view"}
        </Button>
      </div>
    </form>
  );
}
