/** Has the daemon read its configuration again, and shows what has come of it. */

import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { ActionButton } from "../../../ui/ActionButton";
import { Dialog } from "../../../ui/Dialog";
import { sentence } from "../../../ui/format";
import { IconReload } from "../../../ui/icons";
import { ProblemBox } from "../../../ui/ProblemBox";
import { LevelBadge } from "../../../ui/StateBadge";
import classes from "./SettingsPage.module.css";

export function ReloadButton() {
  const [open, setOpen] = useState(false);
  const queries = useQueryClient();
  const reload = useMutation({
    mutationFn: () => unwrap(api.POST("/api/v1/settings/reload")),
    onMutate: () => setOpen(false),
    onSettled: () => {
      setOpen(true);
      void queries.invalidateQueries({ queryKey: keys.settings });
    },
  });
  return (
    <>
      <ActionButton
        variant="default"
        leftSection={<IconReload size={17} />}
        loading={reload.isPending}
        onClick={() => reload.mutate()}
      >
        Reload
      </ActionButton>
      <Dialog
        opened={open}
        onClose={() => setOpen(false)}
        title="Reload of the configuration"
        size="lg"
      >
        {reload.error !== null && <ProblemBox error={reload.error} />}
        {reload.data && <Outcome outcome={reload.data} />}
        <div className="dialog-actions">
          <Button onClick={() => setOpen(false)}>Close</Button>
        </div>
      </Dialog>
    </>
  );
}

function Outcome({ outcome }: { outcome: Schemas["SettingsReload"] }) {
  const { reloaded, taken, kept, faults } = outcome;
  return (
    <div className="dialog-form" role="status">
      <p>
        <b>
          {!reloaded
            ? "The configuration has errors: the former one stays in force, whole."
            : taken.length === 0
              ? "The configuration was read: nothing in it counts otherwise than before."
              : "The configuration was read, and what has changed is in force."}
        </b>
      </p>
      {taken.length > 0 && <p className={classes.list}>In force now: {taken.join(", ")}</p>}
      {kept.length > 0 && (
        <p className={classes.list}>Counts at the next start only: {kept.join(", ")}</p>
      )}
      {faults.length > 0 && (
        <ul className={classes.faults} aria-label="Faults">
          {faults.map((fault) => (
            <li key={`${fault.place} ${fault.line} ${fault.message}`} className={classes.fault}>
              <span>
                <LevelBadge
                  level={fault.level === "error" ? "bad" : "warning"}
                  label={fault.level}
                />{" "}
                {fault.place && (
                  <code>
                    {fault.place}
                    {fault.line !== undefined && `:${fault.line}`}
                  </code>
                )}
              </span>
              <span>{sentence(fault.message)}</span>
              {fault.hint && <span className="dim">{sentence(fault.hint)}</span>}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
