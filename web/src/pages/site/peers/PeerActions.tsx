/** Orders to a peer: drain, take that back, forget. */

import { useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { useRight } from "../../../api/queries";
import type { Peer } from "../../../api/site-queries";
import { ActionButton } from "../../../ui/ActionButton";
import { useConfirm } from "../../../ui/ConfirmDialog";
import { formatCount } from "../../../ui/format";
import classes from "./PeersPage.module.css";

export function PeerActions({ peer, all }: { peer: Peer; all: readonly Peer[] }) {
  const mayDrain = useRight("operate");
  const mayForget = useRight("administer") && peer.presence !== "up" && !peer.own;
  const confirm = useConfirm();
  const queries = useQueryClient();
  const refresh = () => {
    void queries.invalidateQueries({ queryKey: keys.peers });
    void queries.invalidateQueries({ queryKey: keys.health });
  };
  const path = { peer: peer.peer };
  const drain = async (undo: boolean, force = false) => {
    const body = { undo, force };
    await unwrap(api.POST("/api/v1/peers/{peer}/drain", { params: { path }, body }));
    refresh();
  };
  const askDrain = () =>
    confirm({
      title: `Drain ${peer.peer}?`,
      effect: <DrainEffect peer={peer} all={all} />,
      verb: `Drain ${peer.peer}`,
      keep: "Leave it at work",
      danger: false,
      run: () => drain(false),
    });
  const askUndo = () =>
    confirm({
      title: `Give ${peer.peer} work again?`,
      effect: <p>It takes part in transfers again, those that run too.</p>,
      verb: "Give it work",
      keep: "Keep it drained",
      danger: false,
      run: () => drain(true),
    });
  const askForget = () =>
    confirm({
      title: `Forget ${peer.peer}?`,
      effect: (
        <p>
          The site gets new keys, and {peer.peer} is locked out for good. To return, its host has to
          join anew.
        </p>
      ),
      verb: `Forget ${peer.peer}`,
      keep: "Keep it",
      run: async () => {
        const body = { stolen: false };
        await unwrap(api.POST("/api/v1/peers/{peer}/forget", { params: { path }, body }));
        refresh();
      },
    });
  if (!mayDrain && !mayForget) {
    return null;
  }
  return (
    <div className={classes.actions}>
      {mayDrain && (
        <ActionButton
          size="xs"
          variant="default"
          onClick={peer.draining ? askUndo : askDrain}
          aria-label={peer.draining ? `End the drain of ${peer.peer}` : `Drain ${peer.peer}`}
        >
          {peer.draining ? "End drain" : "Drain"}
        </ActionButton>
      )}
      {mayForget && (
        <ActionButton size="xs" variant="default" color="red" onClick={askForget}>
          Forget
        </ActionButton>
      )}
    </div>
  );
}

function DrainEffect({ peer, all }: { peer: Peer; all: readonly Peer[] }) {
  const tasks = peer.load?.tasks ?? [];
  const lanes = tasks.reduce((sum, task) => sum + task.lanes, peer.load?.lanes_served ?? 0);
  const others = all.filter(
    (one) => one.peer !== peer.peer && one.presence === "up" && one.draining === null,
  );
  const names = others.map((one) => one.peer).join(", ");
  return (
    <>
      <p>
        It gets no new work.{" "}
        {lanes === 0
          ? "It has nothing in hand now."
          : `In hand: ${formatCount(tasks.length)} ${tasks.length === 1 ? "transfer" : "transfers"} that it writes, ${formatCount(lanes)} ${lanes === 1 ? "lane" : "lanes"} in all.`}{" "}
        {others.length > 0
          ? `${names} ${others.length === 1 ? "takes" : "take"} over.`
          : "No other peer can take over: transfers of its stores wait until it gets work again."}
      </p>
      <p className="dim">The order holds until it is taken back, over restarts too.</p>
    </>
  );
}
