/** A paired site: who it is, what it may do here, what this site may do there, and the paths. */

import { Button } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useLocation, useParams } from "wouter";
import { api, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { useActive, useRight, useSites } from "../../../api/queries";
import type { Site } from "../../../api/site-queries";
import { useConfirm } from "../../../ui/ConfirmDialog";
import { EmptyState } from "../../../ui/EmptyState";
import { Facts } from "../../../ui/Facts";
import { Fingerprint } from "../../../ui/Fingerprint";
import { formatCount } from "../../../ui/format";
import { IconSites, IconUnpair } from "../../../ui/icons";
import { LinkTo } from "../../../ui/LinkTo";
import { Loaded } from "../../../ui/Loaded";
import { PageHeader } from "../../../ui/PageHeader";
import { Panel } from "../../../ui/Panel";
import { Moment } from "../../../ui/Quantity";
import { PathsPanel } from "./PathsPanel";
import { RightsPanel } from "./RightsPanel";

export function SitePage() {
  const { name = "" } = useParams<{ name: string }>();
  const sites = useSites();
  const mayTest = useRight("operate");
  const mayUnpair = useRight("administer");
  const site = sites.data?.items.find((one) => one.name === name && !one.own);
  return (
    <>
      <PageHeader
        title={name}
        above={<LinkTo to="/sites">Sites</LinkTo>}
        subtitle="A paired site"
        actions={site && mayUnpair && <Unpair site={site} />}
      />
      <Loaded query={sites}>
        {() =>
          site === undefined ? (
            <EmptyState
              icon={IconSites}
              title={`This site is not paired with ${name}`}
              action={<LinkTo to="/sites">All sites</LinkTo>}
            />
          ) : (
            <div className="page-parts">
              <Panel title="Identity">
                <div className="page-parts">
                  <Facts
                    facts={[
                      ["Addresses", site.addresses.join(", ")],
                      ["Paired", site.paired_at && <Moment at={site.paired_at} exact />],
                      ["Keys", keysOf(site)],
                    ]}
                  />
                  <Fingerprint hex={site.fingerprint} of={site.name} />
                </div>
              </Panel>
              <RightsPanel site={site.name} />
              {mayTest && <PathsPanel site={site.name} />}
            </div>
          )
        }
      </Loaded>
    </>
  );
}

function keysOf(site: Site): string {
  const count = site.keys === 0 ? "the first ones" : `rotated ${site.keys} times`;
  return site.unheard ? `${count}; it does not know our new keys yet` : count;
}

function Unpair({ site }: { site: Site }) {
  const confirm = useConfirm();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const active = useActive().data?.items ?? [];
  const hit = active.filter(({ source, target }) => [source.site, target.site].includes(site.name));
  const ask = () =>
    confirm({
      title: `Unpair ${site.name}?`,
      effect: (
        <>
          <p>
            Neither site accepts the other any more.{" "}
            {hit.length === 0
              ? "No transfer between them is under way."
              : `${formatCount(hit.length)} of their transfers ${hit.length === 1 ? "has" : "have"} not ended, and will fail.`}
          </p>
          <p>Data stays where it is. To pair again needs a new code.</p>
        </>
      ),
      verb: `Unpair ${site.name}`,
      keep: "Keep the pairing",
      run: async () => {
        const params = { path: { site: site.name } };
        await unwrap(api.DELETE("/api/v1/sites/{site}", { params }));
        // What this page shows of the site must not be asked for any more.
        navigate("/sites");
        queries.removeQueries({ queryKey: keys.site(site.name) });
        queries.removeQueries({ queryKey: keys.pairedStores(site.name) });
        void queries.invalidateQueries({ queryKey: keys.sites, exact: true });
      },
    });
  return (
    <Button variant="default" color="red" leftSection={<IconUnpair size={17} />} onClick={ask}>
      Unpair
    </Button>
  );
}
