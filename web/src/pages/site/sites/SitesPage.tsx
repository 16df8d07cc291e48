/** This site, and the sites that it is paired with. */

import { Button } from "@mantine/core";
import { useState } from "react";
import { useRight, useSites } from "../../../api/queries";
import type { Site } from "../../../api/site-queries";
import { DataTable } from "../../../ui/DataTable";
import { EmptyState } from "../../../ui/EmptyState";
import { Facts } from "../../../ui/Facts";
import { Fingerprint } from "../../../ui/Fingerprint";
import { fingerprintWords } from "../../../ui/fingerprint";
import { IconLink, IconSites } from "../../../ui/icons";
import { LinkTo } from "../../../ui/LinkTo";
import { Loaded } from "../../../ui/Loaded";
import { PageHeader } from "../../../ui/PageHeader";
import { Panel } from "../../../ui/Panel";
import { Moment } from "../../../ui/Quantity";
import { ToneBadge } from "../../../ui/StateBadge";
import { PairDialog } from "./PairDialog";
import classes from "./SitesPage.module.css";

export function SitesPage() {
  const sites = useSites();
  const mayPair = useRight("administer");
  const [pairing, setPairing] = useState(false);
  const pair = mayPair && (
    <Button leftSection={<IconLink size={17} />} onClick={() => setPairing(true)}>
      Pair
    </Button>
  );
  return (
    <>
      <PageHeader
        title="Sites"
        subtitle="Data moves between sites that are paired."
        actions={pair}
      />
      <div className="page-parts">
        <Loaded query={sites}>
          {(list) => {
            const own = list.items.find((site) => site.own);
            const others = list.items.filter((site) => !site.own);
            return (
              <>
                <Panel title="Paired sites" flush>
                  <Pairings sites={others} mayPair={mayPair} />
                </Panel>
                {own && <OwnSite site={own} />}
              </>
            );
          }}
        </Loaded>
      </div>
      <PairDialog opened={pairing} onClose={() => setPairing(false)} />
    </>
  );
}

function Pairings({ sites, mayPair }: { sites: Site[]; mayPair: boolean }) {
  return (
    <DataTable
      label="Paired sites"
      rows={sites}
      rowKey={(site) => site.name}
      empty={
        <EmptyState icon={IconSites} title="No other site is paired">
          {mayPair
            ? "Give the other site a code, or enter one of its codes."
            : "An administrator pairs sites, by codes that can be used once."}
        </EmptyState>
      }
      columns={[
        {
          key: "name",
          header: "Site",
          card: "title",
          cell: (site) => (
            <span className={classes.name}>
              <LinkTo to={`/sites/${site.name}`}>{site.name}</LinkTo>
              {site.unheard && <ToneBadge tone="warn" label="does not know our new keys yet" />}
            </span>
          ),
        },
        { key: "at", header: "Addresses", cell: (site) => site.addresses.join(", ") || "–" },
        {
          key: "words",
          header: "Fingerprint begins with",
          cell: (site) => (
            <span title={site.fingerprint}>
              {fingerprintWords(site.fingerprint).slice(0, 4).join(" ")} …
            </span>
          ),
        },
        {
          key: "since",
          header: "Paired",
          width: "130px",
          cell: (site) => (site.paired_at ? <Moment at={site.paired_at} /> : "–"),
        },
      ]}
    />
  );
}

function OwnSite({ site }: { site: Site }) {
  return (
    <Panel title={`This site: ${site.name}`}>
      <div className={classes.own}>
        <Facts
          facts={[
            ["Addresses", site.addresses.join(", ")],
            ["Keys", site.keys === 0 ? "the first ones" : `rotated ${site.keys} times`],
          ]}
        />
        <div>
          <p className={classes.lead}>
            Fingerprint of its authority: whoever pairs with this site, or logs in from afar,
            compares it.
          </p>
          <Fingerprint hex={site.fingerprint} of={site.name} />
        </div>
      </div>
    </Panel>
  );
}
