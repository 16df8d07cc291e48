/** The peers of the site and the sites that it is paired with. */

import { useHealth, useSites } from "../../api/queries";
import { formatCount } from "../../ui/format";
import { LinkTo, MoreLink } from "../../ui/LinkTo";
import { Loaded } from "../../ui/Loaded";
import { Panel } from "../../ui/Panel";
import { ToneBadge } from "../../ui/StateBadge";
import classes from "./SiteFacts.module.css";

export function SiteFacts() {
  const health = useHealth();
  const sites = useSites();
  return (
    <Panel title="Site" actions={<MoreLink to="/peers">Peers</MoreLink>}>
      <Loaded query={health}>
        {(view) => (
          <ul className={classes.list}>
            {view.peers.peers.map((peer) => (
              <li key={peer.peer} className={classes.row}>
                <span className={classes.name}>{peer.peer}</span>
                {peer.draining ? (
                  <ToneBadge tone="warn" label="draining" />
                ) : (
                  <ToneBadge tone={peer.presence === "up" ? "ok" : "bad"} label={peer.presence} />
                )}
                <span className={classes.note}>
                  {peer.load?.leads && view.peers.peers.length > 1 && "controller · "}
                  {peer.load ? lanes(peer.load) : peer.trouble || "no answer"}
                </span>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      <h3 className={classes.title}>Paired with</h3>
      <Loaded query={sites} lines={1}>
        {(list) => {
          const others = list.items.filter((site) => !site.own);
          return others.length === 0 ? (
            <p className="dim">no other site yet</p>
          ) : (
            <ul className={classes.list}>
              {others.map((site) => (
                <li key={site.name} className={classes.row}>
                  <LinkTo to={`/sites/${site.name}`} className={classes.name}>
                    {site.name}
                  </LinkTo>
                  <span className={classes.note}>{site.addresses[0]}</span>
                </li>
              ))}
            </ul>
          );
        }}
      </Loaded>
    </Panel>
  );
}

function lanes(load: { lanes_served: number; tasks: readonly { lanes: number }[] }): string {
  const own = load.tasks.reduce((sum, task) => sum + task.lanes, 0);
  const all = own + load.lanes_served;
  return all === 0 ? "idle" : `${formatCount(all)} ${all === 1 ? "lane" : "lanes"}`;
}
