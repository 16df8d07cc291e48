/** Versions, documents, and the licences of what the page is made of. */

import { useQuery } from "@tanstack/react-query";
import { useStatus } from "../../api/queries";
import { at, PROGRAM_URL } from "../../base";
import { Loaded } from "../../ui/Loaded";
import { PageHeader } from "../../ui/PageHeader";
import { Panel } from "../../ui/Panel";
import classes from "./AboutPage.module.css";

interface Licence {
  name: string;
  version: string;
  licence: string;
}

export function AboutPage() {
  const status = useStatus();
  const licences = useQuery({
    queryKey: ["page", "licences"],
    queryFn: async () => (await (await fetch(at("/licences.json"))).json()) as Licence[],
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <>
      <PageHeader title="About" subtitle="Penstock moves data sets between sites." />
      <div className={classes.grid}>
        <Panel title="This daemon">
          <Loaded query={status}>
            {(view) => (
              <dl className={classes.facts}>
                <dt>Release</dt>
                <dd>{view.version}</dd>
                <dt>Site</dt>
                <dd>{view.site.name}</dd>
                <dt>Peer</dt>
                <dd>{view.peer}</dd>
                <dt>Data port</dt>
                <dd>{view.listen}</dd>
                <dt>Authority</dt>
                <dd>
                  <code className={classes.hex}>{view.site.fingerprint}</code>
                </dd>
              </dl>
            )}
          </Loaded>
        </Panel>
        <Panel title="For programs">
          <ul className={classes.links}>
            <li>
              <a href={at("/api/v1/openapi.json")}>The API as an OpenAPI document</a>
              <p className="dim">All that this page does, your programs can do too.</p>
            </li>
            <li>
              <code>penstock --help</code>
              <p className="dim">
                The command line, on any host: <code>penstock login {PROGRAM_URL}</code>
              </p>
            </li>
            <li>
              <code>from penstock import Penstock</code>
              <p className="dim">The Python client, in sdk/python of the sources.</p>
            </li>
          </ul>
        </Panel>
        <Panel title="Licences" className={classes.wide}>
          <p className={classes.own}>
            Penstock is free software under the Apache License 2.0. This page contains the packages
            below.
          </p>
          <Loaded query={licences}>
            {(list) => (
              <ul className={classes.packages}>
                {list.map((one) => (
                  <li key={one.name}>
                    {one.name} <span className="dim">{one.version}</span>
                    <span className={classes.licence}>{one.licence}</span>
                  </li>
                ))}
              </ul>
            )}
          </Loaded>
        </Panel>
      </div>
    </>
  );
}
