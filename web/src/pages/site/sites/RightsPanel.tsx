/** What two paired sites may do with each other's stores. */

import { useRight } from "../../../api/queries";
import { type Store, useSiteStores, useStores } from "../../../api/site-queries";
import { CommandBox } from "../../../ui/Copy";
import { type Column, DataTable } from "../../../ui/DataTable";
import { IconCheck } from "../../../ui/icons";
import { Loaded } from "../../../ui/Loaded";
import { Panel } from "../../../ui/Panel";
import classes from "./SitesPage.module.css";

interface Row {
  store: string;
  read: boolean;
  write: boolean;
  delete: boolean;
  remove: boolean;
}

/** Returns what a site may do in a store of this one. */
export function rightsOf(store: Store, site: string): Row {
  const given = (sites: readonly string[]) => sites.includes("*") || sites.includes(site);
  const changes = (sites: readonly string[]) => !store.read_only && given(sites);
  return {
    store: store.name,
    read: given(store.read),
    write: changes(store.write),
    delete: changes(store.delete),
    remove: changes(store.remove),
  };
}

const COLUMNS: Column<Row>[] = [
  { key: "store", header: "Store", card: "title", width: "34%", cell: (row) => row.store },
  { key: "read", header: "Read", cell: (row) => <Mark given={row.read} /> },
  { key: "write", header: "Write", cell: (row) => <Mark given={row.write} /> },
  { key: "delete", header: "Delete", cell: (row) => <Mark given={row.delete} /> },
  { key: "remove", header: "Empty", cell: (row) => <Mark given={row.remove} /> },
];

function Mark({ given }: { given: boolean }) {
  return given ? (
    <span className={classes.mark}>
      <IconCheck size={17} aria-label="yes" />
    </span>
  ) : (
    <span className={classes.none}>
      <span aria-hidden>–</span>
      <span className="visually-hidden">no</span>
    </span>
  );
}

export function RightsPanel({ site }: { site: string }) {
  const mayList = useRight("list-stores");
  const stores = useStores();
  const theirs = useSiteStores(site, mayList);
  return (
    <div className="page-halves">
      <Panel title={`${site} may do here`} flush>
        <Loaded query={stores}>
          {(list) => (
            <DataTable
              label={`Rights of ${site} in stores of this site`}
              columns={COLUMNS}
              rows={list.items.map((store) => rightsOf(store, site))}
              rowKey={(row) => row.store}
              empty={<p className={classes.pad}>This host has no store.</p>}
            />
          )}
        </Loaded>
        <div className={classes.pad}>
          <p className={classes.lead}>
            To write is to make new files; to delete is to replace files too; to empty is to remove
            what was moved away. Rights are in the configuration of the host. To give more:
          </p>
          <CommandBox command={`penstock site grant ${site} --write STORE`} />
        </div>
      </Panel>
      {mayList && (
        <Panel title={`This site may do at ${site}`} flush>
          <Loaded query={theirs}>
            {(list) => (
              <DataTable
                label={`Rights of this site in stores of ${site}`}
                columns={COLUMNS}
                rows={list.items.map((store) => ({ ...store, store: store.name }))}
                rowKey={(row) => row.store}
                empty={
                  <p className={classes.pad}>
                    {site} lets this site use no store. Its operators give rights there.
                  </p>
                }
              />
            )}
          </Loaded>
        </Panel>
      )}
    </div>
  );
}
