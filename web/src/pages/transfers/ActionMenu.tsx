/** The menu of a transfer in a row, and in the head of its page on a narrow screen. */

import { ActionIcon, Menu } from "@mantine/core";
import { lazy, Suspense, useState } from "react";
import { useLocation } from "wouter";
import { useCanAct } from "../../api/live-context";
import { useRight } from "../../api/queries";
import { copyText } from "../../ui/Copy";
import {
  IconCancel,
  IconCopy,
  IconMore,
  IconNew,
  IconPause,
  IconResume,
  IconRetry,
} from "../../ui/icons";
import { useReaches } from "../../ui/LinkTo";
import { nameOf } from "../overview/attention";
import { type Action, actionLabel, actionsOf, note, type Steered, useSteer } from "./steer";

export const ACTION_ICONS: Record<Action, typeof IconPause> = {
  pause: IconPause,
  resume: IconResume,
  retry: IconRetry,
  cancel: IconCancel,
};

/** Loaded when it is opened. */
const PauseDialog = lazy(() =>
  import("./PauseDialog").then((dialog) => ({ default: dialog.PauseDialog })),
);

/** States in which a transfer can be paused, or the end of its pause be changed. */
const PAUSABLE = new Set<string>(["queued", "running", "paused"]);

export function ActionMenu({ transfer }: { transfer: Steered }) {
  const steer = useSteer();
  const can = useCanAct();
  const maySteer = useRight("steer");
  const reaches = useReaches();
  const [, navigate] = useLocation();
  const [pauses, setPauses] = useState(false);
  const actions = maySteer ? actionsOf(transfer) : [];
  return (
    <>
      <Menu>
        <Menu.Target>
          <ActionIcon variant="subtle" color="gray" aria-label={`Actions of ${nameOf(transfer)}`}>
            <IconMore size={18} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {actions.map((action) => {
            const Icon = ACTION_ICONS[action];
            return (
              <Menu.Item
                key={action}
                disabled={!can}
                color={action === "cancel" ? "red" : undefined}
                leftSection={<Icon size={16} />}
                onClick={() => steer(action, [transfer])}
              >
                {actionLabel(action, transfer)}
                {action === "cancel" && "…"}
              </Menu.Item>
            );
          })}
          {maySteer && PAUSABLE.has(transfer.state) && (
            <Menu.Item
              disabled={!can}
              leftSection={<IconPause size={16} />}
              onClick={() => setPauses(true)}
            >
              Pause until…
            </Menu.Item>
          )}
          {actions.length > 0 && <Menu.Divider />}
          {reaches("/new") && (
            <Menu.Item
              leftSection={<IconNew size={16} />}
              onClick={() => navigate(`/new?again=${transfer.id}`)}
            >
              Submit again
            </Menu.Item>
          )}
          <Menu.Item
            leftSection={<IconCopy size={16} />}
            onClick={() =>
              void copyText(transfer.id).then((done) =>
                note(done ? "The id is copied." : `Copy it yourself: ${transfer.id}`),
              )
            }
          >
            Copy the id
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {pauses && (
        <Suspense>
          <PauseDialog transfer={transfer} onClose={() => setPauses(false)} />
        </Suspense>
      )}
    </>
  );
}
