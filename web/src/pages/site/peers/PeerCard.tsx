/** One host: what it has in hand, by which cards, and what it reaches. */

import type { Schemas } from "../../../api/client";
import type { Peer } from "../../../api/site-queries";
import { Facts } from "../../../ui/Facts";
import { formatCount, sentence, shortId } from "../../../ui/format";
import { LinkTo } from "../../../ui/LinkTo";
import { Moment, Rate } from "../../../ui/Quantity";
import { type Tone, ToneBadge } from "../../../ui/StateBadge";
import { PeerActions } from "./PeerActions";
import { PeerHistory } from "./PeerHistory";
import classes from "./PeersPage.module.css";

type Load = Schemas["PeerLoad"];
type Task = Schemas["TaskLoad"];

const PRESENCE: Record<string, Tone> = { up: "ok", silent: "warn", left: "dim", lost: "bad" };
/** Difference of clocks from which it is worth a colour, in milliseconds. */
const CLOCK_MS = 1_000;

export function PeerCard({ peer, all }: { peer: Peer; all: readonly Peer[] }) {
  const { load } = peer;
  return (
    <li className={classes.card}>
      <div className={classes.head}>
        <h2 className={classes.name}>{peer.peer}</h2>
        {peer.draining && <ToneBadge tone="warn" label="draining" />}
        {load?.leads && <ToneBadge tone="accent" label="controller" />}
        <ToneBadge tone={PRESENCE[peer.presence] ?? "dim"} label={peer.presence} />
      </div>
      <div className={classes.body}>
        {peer.trouble !== "" && <p className={classes.trouble}>{sentence(peer.trouble)}</p>}
        {load ? <Figures load={load} /> : <p className="dim">It does not answer now.</p>}
        {load && load.tasks.length > 0 && <Tasks tasks={load.tasks} />}
        {load && <PeerHistory peer={peer.peer} />}
        <Facts
          facts={[
            ["Release", peer.version],
            ["Since", peer.since > 0 && <Moment at={peer.since * 1_000} />],
            ["Clock", clockOf(peer)],
            ["Addresses", peer.addresses.join(", ")],
            ["Load of the host", load?.host_load.toFixed(1)],
          ]}
        />
        {peer.stores.length > 0 && <Stores peer={peer} />}
        <PeerActions peer={peer} all={all} />
      </div>
    </li>
  );
}

function clockOf(peer: Peer) {
  const ahead = peer.clock_ahead_ms;
  if (ahead === null) {
    return peer.own ? "others are compared with it" : undefined;
  }
  const millis = Math.abs(ahead);
  const size = millis >= 1_000 ? `${(millis / 1_000).toFixed(1)} s` : `${millis.toFixed(1)} ms`;
  const words = `${size} ${ahead >= 0 ? "ahead" : "behind"}`;
  return millis >= CLOCK_MS ? <ToneBadge tone="warn" label={words} /> : words;
}

function Figures({ load }: { load: Load }) {
  const lanes = load.tasks.reduce((sum, task) => sum + task.lanes, 0);
  const rate = load.tasks.reduce((sum, task) => sum + task.rate_bits_per_s, 0);
  return (
    <dl className={classes.figures}>
      <div>
        <dt>writes now</dt>
        <dd>
          <Rate value={rate} />
        </dd>
      </div>
      <div>
        <dt>lanes in · out</dt>
        <dd>
          {formatCount(lanes)} · {formatCount(load.lanes_served)}
        </dd>
      </div>
      {load.leads && (
        <div>
          <dt>transfers run · wait</dt>
          <dd>
            {formatCount(load.running)} · {formatCount(load.queued)}
          </dd>
        </div>
      )}
    </dl>
  );
}

function Tasks({ tasks }: { tasks: readonly Task[] }) {
  return (
    <div>
      <h3 className={classes.part}>Transfers that it writes</h3>
      <ul className={classes.tasks}>
        {tasks.map((task) => (
          <li key={task.transfer + task.store} className={classes.task}>
            <div className={classes.line}>
              <LinkTo to={`/transfers/${task.transfer}`}>{shortId(task.transfer)}</LinkTo>
              <span className="dim">
                {task.source === null ? "within the site" : `from ${task.source}`} to {task.store}
              </span>
              <Rate value={task.rate_bits_per_s} />
            </div>
            {task.paths.map((path) => (
              <div key={path.from + path.to} className={classes.path} title={path.why}>
                <span>
                  {path.from} → {path.to} ({path.to_peer})
                </span>
                <span>
                  {path.state} · {formatCount(path.lanes)} {path.lanes === 1 ? "lane" : "lanes"} ·{" "}
                  <Rate value={path.rate_bits_per_s} />
                </span>
              </div>
            ))}
          </li>
        ))}
      </ul>
    </div>
  );
}

const STORE: Record<string, [Tone, string]> = {
  same: ["ok", ""],
  alone: ["ok", ""],
  new: ["dim", ": new"],
  other: ["bad", ": another store than at other peers"],
  offline: ["bad", ": offline"],
};

function Stores({ peer }: { peer: Peer }) {
  return (
    <div>
      <h3 className={classes.part}>Stores</h3>
      <div className={classes.stores}>
        {peer.stores.map((store) => {
          const [tone, word] = STORE[store.is] ?? ["dim", `: ${store.is}`];
          return (
            <span key={store.store} title={store.why}>
              <ToneBadge tone={tone} label={`${store.store}${word}`} />
            </span>
          );
        })}
      </div>
    </div>
  );
}
