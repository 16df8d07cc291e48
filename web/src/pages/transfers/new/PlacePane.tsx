/** One side of a new transfer: site, store and directory. */

import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type KeyboardEvent, useEffect, useState } from "react";
import type { Schemas } from "../../../api/client";
import { useRight, useSites } from "../../../api/queries";
import { ActionButton } from "../../../ui/ActionButton";
import { IconFolderAdd, IconSearch } from "../../../ui/icons";
import { Panel } from "../../../ui/Panel";
import { ProblemBox } from "../../../ui/ProblemBox";
import { makeDirectory, type Side, useOwnSite, useStoresOf } from "./browse";
import { DirectoryList } from "./DirectoryList";
import classes from "./PlacePane.module.css";
import { joined, type PlaceDraft } from "./request";

interface Props {
  side: Side;
  place: PlaceDraft;
  onPlace: (place: PlaceDraft) => void;
  chosen?: string[];
  onChosen?: (names: string[]) => void;
}

const SORTS: { value: Schemas["EntrySort"]; label: string }[] = [
  { value: "name", label: "by name" },
  { value: "-mtime", label: "newest first" },
  { value: "-size", label: "largest first" },
];

export function PlacePane({ side, place, onPlace, chosen, onChosen }: Props) {
  const mayList = useRight("list-stores");
  const sites = useSites();
  const stores = useStoresOf(place.site);
  const fitting = (stores.data ?? []).filter((one) => (side === "source" ? one.read : one.write));
  const first = fitting[0]?.name;
  const known = fitting.some((one) => one.name === place.store);
  useEffect(() => {
    // A store that is gone, or was never chosen: the first that fits.
    if (first !== undefined && !known) {
      onPlace({ ...place, store: first, path: "" });
    }
  }, [first, known, place, onPlace]);
  const kind = fitting.find((one) => one.name === place.store)?.place ?? "";
  const verb = side === "source" ? "read" : "write";
  const names = (sites.data?.items ?? []).map((site) => site.name);
  return (
    <Panel
      title={side === "source" ? "From" : "To"}
      actions={
        <>
          <NativeSelect
            aria-label={side === "source" ? "Source site" : "Target site"}
            size="xs"
            data={names.includes(place.site) ? names : [place.site, ...names]}
            value={place.site}
            onChange={(event) => onPlace({ site: event.currentTarget.value, store: "", path: "" })}
          />
          <NativeSelect
            aria-label={side === "source" ? "Source store" : "Target store"}
            size="xs"
            data={fitting.length > 0 ? fitting.map((one) => one.name) : [place.store]}
            value={place.store}
            onChange={(event) => onPlace({ ...place, store: event.currentTarget.value, path: "" })}
          />
        </>
      }
      flush
    >
      {stores.isError && (
        <div className={classes.note}>
          <ProblemBox error={stores.error} onRetry={() => void stores.refetch()} />
        </div>
      )}
      {stores.data !== undefined && fitting.length === 0 && (
        <p className={classes.note}>
          {place.site} has no store that you may {verb}. Who operates {place.site} can give you the
          right.
        </p>
      )}
      {kind.startsWith("mem:") ? (
        <Virtual text={`The store makes data as it is read: ${kind}. All of it moves.`} />
      ) : kind === "null:" ? (
        <Virtual text="The store takes everything and keeps nothing." />
      ) : (
        place.store !== "" &&
        (mayList ? (
          <Browser
            key={`${place.site}:${place.store}`}
            {...{ side, place, onPlace, chosen, onChosen }}
          />
        ) : (
          <Typed {...{ place, onPlace }} />
        ))
      )}
    </Panel>
  );
}

function Virtual({ text }: { text: string }) {
  return <p className={classes.virtual}>{text}</p>;
}

/** A path as a text, where directories cannot be listed. */
function Typed({ place, onPlace }: Pick<Props, "place" | "onPlace">) {
  return (
    <div className={classes.note}>
      <TextInput
        label="Path in the store"
        description="You may not list directories: type the path."
        value={place.path}
        onChange={(event) => onPlace({ ...place, path: clean(event.currentTarget.value) })}
      />
    </div>
  );
}

/** Returns a typed path without slashes at its ends. */
function clean(text: string): string {
  return text.trim().replace(/^\/+|\/+$/g, "");
}

function Browser({ side, place, onPlace, chosen, onChosen }: Props) {
  const [text, setText] = useState("");
  const [sort, setSort] = useState<Schemas["EntrySort"]>("name");
  const open = (path: string) => {
    setText("");
    onPlace({ ...place, path });
    onChosen?.([]);
  };
  const press = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.key === "Enter" && text.trim() !== "") {
      event.preventDefault();
      const absolute = text.trim().startsWith("/");
      open(absolute ? clean(text) : joined(place.path, clean(text)));
    }
  };
  // A text with a slash is a path to go to; one without filters the names.
  const prefix = text.includes("/") ? "" : text;
  return (
    <>
      <div className={classes.bar}>
        <Crumbs side={side} place={place} onOpen={open} />
        {side === "target" && <NewFolder place={place} onMade={open} />}
      </div>
      <div className={classes.find}>
        <TextInput
          size="xs"
          aria-label={side === "source" ? "Find in the source" : "Find in the target"}
          placeholder="Begin of a name, or a path and Enter"
          leftSection={<IconSearch size={15} aria-hidden />}
          value={text}
          spellCheck={false}
          autoComplete="off"
          onChange={(event) => setText(event.currentTarget.value)}
          onKeyDown={press}
        />
        <NativeSelect
          size="xs"
          aria-label={side === "source" ? "Order in the source" : "Order in the target"}
          data={SORTS}
          value={sort}
          onChange={(event) => setSort(event.currentTarget.value as Schemas["EntrySort"])}
        />
      </div>
      <DirectoryList
        place={place}
        prefix={prefix}
        sort={sort}
        chosen={chosen}
        onChosen={onChosen}
        onOpen={open}
      />
    </>
  );
}

interface CrumbsProps {
  side: Side;
  place: PlaceDraft;
  onOpen: (path: string) => void;
}

function Crumbs({ side, place, onOpen }: CrumbsProps) {
  const names = place.path === "" ? [] : place.path.split("/");
  return (
    <nav
      aria-label={side === "source" ? "Path of the source" : "Path of the target"}
      className={classes.crumbs}
    >
      <ol>
        <li>
          <button type="button" onClick={() => onOpen("")}>
            {place.store}
          </button>
        </li>
        {names.map((name, depth) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a path is its names in their order
          <li key={depth}>
            <button
              type="button"
              aria-current={depth === names.length - 1 ? "true" : undefined}
              onClick={() => onOpen(names.slice(0, depth + 1).join("/"))}
            >
              {name}
            </button>
          </li>
        ))}
      </ol>
    </nav>
  );
}

function NewFolder({ place, onMade }: { place: PlaceDraft; onMade: (path: string) => void }) {
  const own = useOwnSite();
  const queries = useQueryClient();
  const [name, setName] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const make = async (event: FormEvent) => {
    event.preventDefault();
    const path = joined(place.path, clean(name ?? ""));
    setBusy(true);
    setError(null);
    try {
      await makeDirectory(own, { ...place, path });
      await queries.invalidateQueries({ queryKey: ["stores", "entries"] });
      setName(null);
      onMade(path);
    } catch (why) {
      setError(why);
    }
    setBusy(false);
  };
  if (name === null) {
    return (
      <Button
        size="compact-sm"
        variant="subtle"
        leftSection={<IconFolderAdd size={16} />}
        onClick={() => setName("")}
      >
        New folder
      </Button>
    );
  }
  return (
    <form className={classes.make} onSubmit={(event) => void make(event)}>
      <TextInput
        size="xs"
        data-autofocus
        autoFocus
        aria-label="Name of the folder"
        placeholder="Name"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Escape" && setName(null)}
      />
      <ActionButton type="submit" size="xs" loading={busy} disabled={clean(name) === ""}>
        Make
      </ActionButton>
      <Button size="xs" variant="default" onClick={() => setName(null)}>
        Leave
      </Button>
      {error !== null && (
        <div className={classes.whole}>
          <ProblemBox error={error} />
        </div>
      )}
    </form>
  );
}
