/** The hosts of the site: their work, their stores, their clocks, and the order to drain them. */

import { Button } from "@mantine/core";
import { useState } from "react";
import { useHealth, useRight } from "../../../api/queries";
import { usePeers } from "../../../api/site-queries";
import { FindingList } from "../../../ui/FindingList";
import { sentence } from "../../../ui/format";
import { IconAdd } from "../../../ui/icons";
import { Loaded } from "../../../ui/Loaded";
import { PageHeader } from "../../../ui/PageHeader";
import { Panel } from "../../../ui/Panel";
import { DoctorPanel } from "./DoctorPanel";
import { InviteDialog } from "./InviteDialog";
import { PeerCard } from "./PeerCard";
import classes from "./PeersPage.module.css";

export function PeersPage() {
  const peers = usePeers();
  const mayInvite = useRight("administer");
  const [inviting, setInviting] = useState(false);
  return (
    <>
      <PageHeader
        title="Peers"
        subtitle="The hosts of this site that move data."
        actions={
          mayInvite && (
            <Button
              variant="default"
              leftSection={<IconAdd size={17} />}
              onClick={() => setInviting(true)}
            >
              Add a host
            </Button>
          )
        }
      />
      <div className="page-parts">
        <Findings />
        <Loaded query={peers} lines={6}>
          {(view) => (
            <ul className={classes.cards} aria-label="Peers">
              {view.peers.map((peer) => (
                <PeerCard key={peer.peer} peer={peer} all={view.peers} />
              ))}
            </ul>
          )}
        </Loaded>
        <Cluster />
        <DoctorPanel />
      </div>
      <InviteDialog opened={inviting} onClose={() => setInviting(false)} />
    </>
  );
}

function Findings() {
  const findings = (useHealth().data?.findings ?? []).filter((finding) => finding.level !== "ok");
  if (findings.length === 0) {
    return null;
  }
  return (
    <Panel title="Findings" aside={findings.length} flush>
      <FindingList findings={findings} />
    </Panel>
  );
}

/** The site's records, where several peers share them. */
function Cluster() {
  const cluster = useHealth().data?.cluster;
  if (!cluster) {
    return null;
  }
  return (
    <Panel title="Records of the site">
      <p>
        {cluster.leader ? `${cluster.leader.peer} leads. ` : "No peer leads now. "}A controller that
        is silent for {cluster.lease_seconds} s is replaced.
      </p>
      {cluster.trouble !== "" && <p className={classes.trouble}>{sentence(cluster.trouble)}</p>}
    </Panel>
  );
}
