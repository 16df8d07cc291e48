/** Makes a link by which a user sets its own password, and shows it once. */

import { Button } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { api, unwrap } from "../../../api/client";
import { at } from "../../../base";
import { ActionButton } from "../../../ui/ActionButton";
import { CommandBox } from "../../../ui/Copy";
import { Dialog } from "../../../ui/Dialog";
import { ProblemBox } from "../../../ui/ProblemBox";
import { Moment } from "../../../ui/Quantity";

export function InviteDialog({ user, onClose }: { user: string | null; onClose: () => void }) {
  return (
    <Dialog opened={user !== null} onClose={onClose} title={`Link for ${user}`} careful size="lg">
      {user !== null && <Invitation user={user} onClose={onClose} />}
    </Dialog>
  );
}

function Invitation({ user, onClose }: { user: string; onClose: () => void }) {
  const invite = useMutation({
    mutationFn: () => {
      const params = { path: { name: user } };
      return unwrap(api.POST("/api/v1/users/{name}/invite", { params }));
    },
  });
  if (invite.data === undefined) {
    return (
      <div className="dialog-form">
        <p>
          By the link {user} sets a password and comes in, once, within three days. It ends an
          earlier link.
        </p>
        {invite.error !== null && <ProblemBox error={invite.error} />}
        <div className="dialog-actions">
          <Button variant="default" onClick={onClose}>
            Not now
          </Button>
          <ActionButton loading={invite.isPending} onClick={() => invite.mutate()} data-autofocus>
            Make link
          </ActionButton>
        </div>
      </div>
    );
  }
  const link = `${window.location.origin}${at(invite.data.link)}`;
  return (
    <div className="dialog-form">
      <p>
        Give it to {user} by a way that nobody else reads. It is shown only now, and expires{" "}
        <Moment at={invite.data.expires_at} />.
      </p>
      <CommandBox command={link} label="Copy the link" />
      <div className="dialog-actions">
        <Button onClick={onClose}>Done</Button>
      </div>
    </div>
  );
}
