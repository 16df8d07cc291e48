/** Shows the secret of a webhook, once. */

import { Button } from "@mantine/core";
import { CommandBox } from "../../../ui/Copy";
import { Dialog } from "../../../ui/Dialog";
import type { Webhook } from "./queries";

export function SecretDialog({
  webhook,
  onClose,
}: {
  webhook: Webhook | null;
  onClose: () => void;
}) {
  return (
    <Dialog
      opened={webhook !== null}
      onClose={onClose}
      title={`Secret of ${webhook?.name}`}
      careful
      size="lg"
    >
      <div className="dialog-form">
        <p>The receiver checks signatures with it (Standard Webhooks). It is shown only now.</p>
        <CommandBox command={webhook?.secret ?? ""} label="Copy the secret" />
        <div className="dialog-actions">
          <Button onClick={onClose}>Done</Button>
        </div>
      </div>
    </Dialog>
  );
}
