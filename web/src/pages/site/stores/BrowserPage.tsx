/** The contents of a store, one directory at a time. */

import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useState } from "react";
import { Link, useLocation, useParams, useSearch } from "wouter";
import { useRight, useStatus } from "../../../api/queries";
import { useSiteStores, useStore } from "../../../api/site-queries";
import { ActionButton } from "../../../ui/ActionButton";
import { EmptyState } from "../../../ui/EmptyState";
import { IconFolderAdd, IconNext, IconStores } from "../../../ui/icons";
import { LinkTo } from "../../../ui/LinkTo";
import { PageHeader } from "../../../ui/PageHeader";
import { Panel } from "../../../ui/Panel";
import classes from "./BrowserPage.module.css";
import { type Choice, EntryTable, type Sort } from "./EntryTable";
import { NewDirectory } from "./NewDirectory";
import { browseAt, crumbs } from "./place";
import { SelectionBar } from "./SelectionBar";

const NONE: ReadonlyMap<string, Choice> = new Map();

export function BrowserPage() {
  const { site = "", store = "" } = useParams<{ site: string; store: string }>();
  const query = new URLSearchParams(useSearch());
  const path = query.get("path") ?? "";
  // Another directory begins with no selection and no filter.
  return <Browser key={`${site}:${store}/${path}`} site={site} store={store} path={path} />;
}

interface Place {
  site: string;
  store: string;
  path: string;
}

/** Returns whether the caller may make directories in a store. */
function useMayWrite({ site, store }: Place): boolean {
  const own = useStatus().data?.site.name === site;
  const maySubmit = useRight("submit");
  const mine = useStore(store, own).data;
  const theirs = useSiteStores(site, !own).data?.items.find((one) => one.name === store);
  const may = own ? mine?.rights.write === true && !mine.store.read_only : theirs?.write === true;
  return maySubmit && may;
}

function Browser(place: Place) {
  const { site, store, path } = place;
  const [, navigate] = useLocation();
  const search = useSearch();
  const sort = (new URLSearchParams(search).get("sort") ?? "name") as Sort;
  const [prefix, setPrefix] = useState("");
  const [making, setMaking] = useState(false);
  const [chosen, setChosen] = useState<ReadonlyMap<string, Choice>>(NONE);
  const mayWrite = useMayWrite(place);
  const order = (to: string) => {
    const query = new URLSearchParams(search);
    query.set("sort", to);
    navigate(`/stores/${site}/${store}?${query}`, { replace: true });
  };
  return (
    <>
      <PageHeader
        title={store}
        tab={`${site}:${store}/${path}`}
        above={<LinkTo to="/stores">Stores</LinkTo>}
        subtitle={`A store of ${site}`}
        actions={
          mayWrite && (
            <ActionButton
              variant="default"
              leftSection={<IconFolderAdd size={17} />}
              onClick={() => setMaking(true)}
            >
              New directory
            </ActionButton>
          )
        }
      />
      <Panel
        title="Directory"
        flush
        actions={
          <>
            <TextInput
              size="xs"
              aria-label="Names that begin with"
              placeholder="Begins with…"
              value={prefix}
              onChange={(event) => setPrefix(event.currentTarget.value)}
              className={classes.filter}
            />
            <NativeSelect
              size="xs"
              aria-label="Order"
              value={sort}
              onChange={(event) => order(event.currentTarget.value)}
              data={[
                { value: "name", label: "By name" },
                { value: "-mtime", label: "Newest first" },
                { value: "-size", label: "Largest first" },
              ]}
            />
          </>
        }
      >
        <Crumbs {...place} />
        <EntryTable
          {...place}
          sort={sort}
          prefix={prefix}
          chosen={chosen}
          setChosen={setChosen}
          empty={
            prefix === "" ? (
              <EmptyState icon={IconStores} title="This directory is empty" />
            ) : (
              <EmptyState
                icon={IconStores}
                title={`No name begins with “${prefix}”`}
                action={
                  <Button variant="default" size="xs" onClick={() => setPrefix("")}>
                    Clear
                  </Button>
                }
              />
            )
          }
        />
      </Panel>
      <SelectionBar {...place} chosen={chosen} onClear={() => setChosen(NONE)} />
      <NewDirectory {...place} opened={making} onClose={() => setMaking(false)} />
    </>
  );
}

function Crumbs({ site, store, path }: Place) {
  const steps = [{ name: store, path: "" }, ...crumbs(path)];
  return (
    <nav aria-label="Path" className={classes.crumbs}>
      <ol>
        {steps.map((step, index) => {
          const last = index === steps.length - 1;
          return (
            <li key={step.path}>
              {index > 0 && <IconNext size={14} aria-hidden />}
              {last ? (
                <span aria-current="location">{step.name}</span>
              ) : (
                <Link href={browseAt(site, store, step.path)}>{step.name}</Link>
              )}
            </li>
          );
        })}
      </ol>
    </nav>
  );
}
