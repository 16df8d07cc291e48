/** What can be done to the chosen transfers, each action with the number that it fits. */

import { Button } from "@mantine/core";
import type { TransferSummary } from "../../../api/queries";
import { ActionButton } from "../../../ui/ActionButton";
import { formatCount } from "../../../ui/format";
import { ACTION_ICONS } from "../ActionMenu";
import { type Action, actionLabel, actionsOf, type Steer } from "../steer";
import classes from "./BulkBar.module.css";

interface Props {
  rows: TransferSummary[];
  steer: Steer;
  onNone: () => void;
}

const ACTIONS: Action[] = ["pause", "resume", "retry", "cancel"];

export function BulkBar({ rows, steer, onNone }: Props) {
  return (
    <section className={classes.bar} aria-label="Chosen transfers">
      <b>{formatCount(rows.length)} chosen</b>
      {ACTIONS.map((action) => {
        const fitting = rows.filter((row) => actionsOf(row).includes(action));
        const Icon = ACTION_ICONS[action];
        return (
          fitting.length > 0 && (
            <ActionButton
              key={action}
              size="compact-md"
              variant={action === "cancel" ? "outline" : "default"}
              color={action === "cancel" ? "red" : undefined}
              leftSection={<Icon size={16} />}
              onClick={() => steer(action, fitting)}
            >
              {actionLabel(action)} {formatCount(fitting.length)}
            </ActionButton>
          )
        );
      })}
      <Button size="compact-md" variant="subtle" color="gray" onClick={onNone}>
        Choose none
      </Button>
    </section>
  );
}
