/** The stores of this site, and those of paired sites that it may use. */

import { useRight, useSites } from "../../../api/queries";
import {
  type SiteStore,
  type Store,
  useSiteStores,
  useStore,
  useStores,
} from "../../../api/site-queries";
import { DataTable } from "../../../ui/DataTable";
import { EmptyState } from "../../../ui/EmptyState";
import { formatCount } from "../../../ui/format";
import { IconBrowse, IconSites, IconStores } from "../../../ui/icons";
import { LinkTo } from "../../../ui/LinkTo";
import { Loaded } from "../../../ui/Loaded";
import { Meter } from "../../../ui/Meter";
import { PageHeader } from "../../../ui/PageHeader";
import { Panel } from "../../../ui/Panel";
import { Bytes } from "../../../ui/Quantity";
import { type Tone, ToneBadge } from "../../../ui/StateBadge";
import classes from "./StoresPage.module.css";

/** Share of free room below which a store is nearly full. */
const SCARCE = 0.05;

export function StoresPage() {
  const stores = useStores();
  const sites = useSites();
  const maySee = useRight("list-stores");
  const own = sites.data?.items.find((site) => site.own)?.name ?? "";
  const paired = (sites.data?.items ?? []).filter((site) => !site.own);
  return (
    <>
      <PageHeader title="Stores" subtitle="Where transfers read and write." />
      <div className={classes.parts}>
        <Loaded query={stores}>
          {(list) =>
            list.items.length === 0 ? (
              <Panel title="This site">
                <EmptyState icon={IconStores} title="This host has no store yet">
                  A table <code>[[store]]</code> of its configuration adds one.
                </EmptyState>
              </Panel>
            ) : (
              <ul className={classes.cards} aria-label="Stores of this site">
                {list.items.map((store) => (
                  <StoreCard key={store.name} store={store} site={own} mayList={maySee} />
                ))}
              </ul>
            )
          }
        </Loaded>
        {maySee && paired.map((site) => <PairedStores key={site.name} site={site.name} />)}
        {maySee && sites.data !== undefined && paired.length === 0 && (
          <Panel title="Paired sites">
            <EmptyState
              icon={IconSites}
              title="No other site is paired"
              action={<LinkTo to="/sites">Sites</LinkTo>}
            >
              Stores that another site lets this one use are listed here.
            </EmptyState>
          </Panel>
        )}
      </div>
    </>
  );
}

const STATE: Record<string, Tone> = { online: "ok", offline: "bad", hung: "bad" };

function StoreCard({ store, site, mayList }: { store: Store; site: string; mayList: boolean }) {
  const details = useStore(store.name).data;
  const space = details?.space;
  const used = space && space.total_bytes > 0 ? 1 - space.free_bytes / space.total_bytes : null;
  const scarce = used !== null && 1 - used < SCARCE;
  const mayBrowse = mayList && details?.rights.list === true;
  return (
    <li className={classes.card}>
      <div className={classes.head}>
        <h2 className={classes.name}>{store.name}</h2>
        {details && <ToneBadge tone={STATE[details.state] ?? "dim"} label={details.state} />}
        {store.read_only && <ToneBadge tone="dim" label="read only" />}
      </div>
      <code className={classes.place}>{store.place}</code>
      {details !== undefined && details.why !== "" && <p className={classes.why}>{details.why}</p>}
      {space && used !== null && (
        <div className={classes.room}>
          <Meter
            share={used}
            tone={scarce ? "bad" : "accent"}
            label={`Room of ${store.name} in use`}
          />
          <p>
            <b>
              <Bytes value={space.free_bytes} />
            </b>{" "}
            free of <Bytes value={space.total_bytes} />
            {space.free_files !== undefined && ` · room for ${formatCount(space.free_files)} files`}
          </p>
        </div>
      )}
      <dl className={classes.facts}>
        <div>
          <dt>Paired sites may</dt>
          <dd>{sitesMay(store)}</dd>
        </div>
        <div>
          <dt>Peers</dt>
          <dd>{details ? details.peers.map((peer) => peer.peer).join(", ") : "…"}</dd>
        </div>
        {details && (
          <div>
            <dt>You may</dt>
            <dd>{rightWords(details.rights)}</dd>
          </div>
        )}
      </dl>
      {mayBrowse && (
        <LinkTo to={`/stores/${site}/${store.name}`} className={classes.browse}>
          <IconBrowse size={17} aria-hidden /> Browse {store.name}
        </LinkTo>
      )}
    </li>
  );
}

/** Returns what paired sites may do in a store, in words. */
export function sitesMay(store: Store): string {
  const named = (verb: string, sites: readonly string[]) =>
    sites.length === 0 ? [] : [`${verb}: ${sites.includes("*") ? "all" : sites.join(", ")}`];
  const words = [
    ...named("read", store.read),
    ...(store.read_only ? [] : named("write", store.write)),
    ...(store.read_only ? [] : named("replace and delete", store.delete)),
    ...(store.read_only ? [] : named("empty", store.remove)),
  ];
  return words.join(" · ") || "nothing";
}

function rightWords(rights: { list: boolean; read: boolean; write: boolean }): string {
  const words = Object.entries(rights).flatMap(([verb, has]) => (has ? [verb] : []));
  return words.join(", ") || "nothing";
}

function PairedStores({ site }: { site: string }) {
  const stores = useSiteStores(site);
  return (
    <Panel title={`At ${site}`} flush actions={<LinkTo to={`/sites/${site}`}>Site</LinkTo>}>
      <Loaded query={stores}>
        {(list) => (
          <DataTable
            label={`Stores of ${site}`}
            rows={list.items}
            rowKey={(store) => store.name}
            empty={
              <EmptyState icon={IconStores} title={`${site} lets this site use no store`}>
                There: <code>penstock site grant THIS-SITE --read STORE</code>.
              </EmptyState>
            }
            columns={[
              {
                key: "name",
                header: "Store",
                card: "title",
                width: "40%",
                cell: (store) =>
                  store.read || store.write ? (
                    <LinkTo to={`/stores/${site}/${store.name}`}>{store.name}</LinkTo>
                  ) : (
                    store.name
                  ),
              },
              { key: "may", header: "This site may", cell: siteStoreMay },
            ]}
          />
        )}
      </Loaded>
    </Panel>
  );
}

export function siteStoreMay(store: SiteStore): string {
  const words = [
    store.read && "read",
    store.write && "write",
    store.delete && "replace and delete",
    store.remove && "empty",
  ];
  return words.filter(Boolean).join(", ") || "nothing";
}
