/** Shows the token with which another host joins the site. */

import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../../api/client";
import { CommandBox } from "../../../ui/Copy";
import { Dialog } from "../../../ui/Dialog";
import { Loaded } from "../../../ui/Loaded";
import { Moment } from "../../../ui/Quantity";
import classes from "./PeersPage.module.css";

export function InviteDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  return (
    <Dialog opened={opened} onClose={onClose} title="Add a host to this site" size="lg">
      <Invitation onClose={onClose} />
    </Dialog>
  );
}

function Invitation({ onClose }: { onClose: () => void }) {
  const invitation = useQuery({
    queryKey: ["peer-invitation"],
    queryFn: () => unwrap(api.POST("/api/v1/peer-invitations")),
    // A second one would replace the code that was perhaps sent already.
    staleTime: "static",
    gcTime: 0,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
  return (
    <Loaded query={invitation}>
      {({ token, expires_at }) => (
        <div className={classes.step}>
          <p>On the other host, with Penstock installed, and the token as its input:</p>
          <CommandBox command="penstock site join - --peer NAME" />
          <p>
            The token: whoever has it can join the site. It can be used once, and expires{" "}
            <Moment at={expires_at} />.
          </p>
          <CommandBox command={token} label="Copy the token" />
          <div className="dialog-actions">
            <Button onClick={onClose}>Done</Button>
          </div>
        </div>
      )}
    </Loaded>
  );
}
