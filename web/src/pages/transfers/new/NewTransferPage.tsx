/** A new transfer: from where, to where, how; a plan before, and the same as a command. */

import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useLocation, useSearch } from "wouter";
import { api, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { problemOf } from "../../../api/problem";
import { useSites } from "../../../api/queries";
import { ActionButton } from "../../../ui/ActionButton";
import { CommandBox, copyWords, useCopied } from "../../../ui/Copy";
import { useDraft } from "../../../ui/draft";
import { IconCopy } from "../../../ui/icons";
import { Loaded } from "../../../ui/Loaded";
import { PageHeader } from "../../../ui/PageHeader";
import { ProblemBox } from "../../../ui/ProblemBox";
import { Moment } from "../../../ui/Quantity";
import { useStoresOf } from "./browse";
import classes from "./NewTransferPage.module.css";
import { OptionsForm } from "./OptionsForm";
import { PlacePane } from "./PlacePane";
import { type Planning, PlanPanel } from "./PlanPanel";
import { keepPlaces, lastPlaces, parsePlace } from "./places";
import { readPlan } from "./plan";
import {
  bodyOf,
  commandOf,
  type Draft,
  draftOf,
  emptyDraft,
  NO_PLACE,
  newId,
  obstacleOf,
  type PlaceDraft,
  pythonOf,
} from "./request";

export function NewTransferPage() {
  const search = new URLSearchParams(useSearch());
  const again = search.get("again");
  const source = search.get("source");
  const target = search.get("target");
  if (again !== null) {
    return <Again id={again} key={again} />;
  }
  const last = lastPlaces();
  const named = parsePlace(source);
  const begin = emptyDraft(named ?? last?.source, parsePlace(target) ?? last?.target);
  begin.chosen = named === undefined ? [] : search.getAll("item");
  const name = source === null && target === null ? "new-transfer" : `new-transfer-${search}`;
  return <Form key={name} name={name} begin={begin} />;
}

/** The same as a former transfer. */
function Again({ id }: { id: string }) {
  const former = useQuery({
    queryKey: [...keys.transfer(id), "options"],
    queryFn: ({ signal }) => {
      const params = { path: { id }, query: { include: "options" as const } };
      return unwrap(api.GET("/api/v1/transfers/{id}", { params, signal }));
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (former.data === undefined) {
    return (
      <>
        <PageHeader title="New transfer" />
        <Loaded query={former}>{() => null}</Loaded>
      </>
    );
  }
  return <Form name={`new-transfer-${id}`} begin={draftOf(former.data)} />;
}

const NO_PLAN: Planning = { busy: false, plan: null, error: null, stale: false };

function usePlanning(draft: Draft) {
  const [planning, setPlanning] = useState<Planning>(NO_PLAN);
  const stop = useRef<AbortController | null>(null);
  const planned = useRef("");
  const text = JSON.stringify(draft);
  useEffect(() => () => stop.current?.abort(), []);
  const make = async () => {
    stop.current?.abort();
    const control = new AbortController();
    stop.current = control;
    planned.current = text;
    setPlanning({ busy: true, plan: null, error: null, stale: false });
    try {
      const plan = await readPlan(bodyOf(draft, newId()), control.signal, (part) => {
        setPlanning({ busy: true, plan: part, error: null, stale: false });
      });
      setPlanning({ busy: false, plan, error: null, stale: false });
    } catch (error) {
      setPlanning(control.signal.aborted ? NO_PLAN : { ...NO_PLAN, error });
    }
  };
  const isShown = planning.busy || planning.plan !== null || planning.error !== null;
  const stale = !planning.busy && planned.current !== text;
  return {
    planning: { ...planning, stale },
    isShown,
    make: () => void make(),
    stop: () => stop.current?.abort(),
  };
}

function Form({ name, begin }: { name: string; begin: Draft }) {
  const [draft, setDraft, forget] = useDraft(name, begin);
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const planning = usePlanning(draft);
  useFirstPlaces(draft, setDraft);
  const text = JSON.stringify(draft);
  // The same form sent again is the same transfer: an answer that was lost makes no second one.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another form is another transfer
  const id = useMemo(newId, [text]);
  const start = useMutation({
    mutationFn: () => unwrap(api.POST("/api/v1/transfers", { body: bodyOf(draft, id) })),
    onSuccess: (view) => {
      keepPlaces({ source: draft.source, target: draft.target });
      forget();
      void queries.invalidateQueries({ queryKey: keys.transfers });
      navigate(`/transfers/${view.id}`);
    },
  });
  const set = useCallback(
    (change: Partial<Draft>) => setDraft((before) => ({ ...before, ...change })),
    [setDraft],
  );
  // Names that were chosen are those of the former place.
  const onSource = useCallback((source: PlaceDraft) => set({ source, chosen: [] }), [set]);
  const onTarget = useCallback((target: PlaceDraft) => set({ target }), [set]);
  const obstacle = obstacleOf(draft);
  const outlook = start.error === null ? undefined : problemOf(start.error).deadline;
  return (
    <>
      <PageHeader
        title="New transfer"
        subtitle="What is moved is verified, made durable, and resumed after any failure."
      />
      <div className={classes.panes}>
        <PlacePane
          side="source"
          place={draft.source}
          onPlace={onSource}
          chosen={draft.chosen}
          onChosen={(chosen) => set({ chosen })}
        />
        <PlacePane side="target" place={draft.target} onPlace={onTarget} />
        <Trial draft={draft} onTry={set} />
        <div className={classes.whole}>
          <OptionsForm
            values={draft.values}
            onValues={(values) => set({ values })}
            label={draft.label}
            onLabel={(label) => set({ label })}
            rest={draft.rest}
            onRest={(rest) => set({ rest })}
          />
        </div>
        {planning.isShown && (
          <div className={`${classes.whole} ${classes.plan}`} ref={intoView}>
            <PlanPanel
              planning={planning.planning}
              onStop={planning.stop}
              onAgain={planning.make}
            />
          </div>
        )}
      </div>
      <div className={classes.bar}>
        {start.error !== null && (
          <div className={classes.fault}>
            <ProblemBox error={start.error} onRetry={() => start.mutate()} />
            {outlook?.forecast_at && (
              <p className="dim">
                The forecast ends <Moment at={outlook.forecast_at} />.
              </p>
            )}
          </div>
        )}
        <p className={classes.effect} data-bad={obstacle !== undefined || undefined}>
          {obstacle ?? effectOf(draft)}
        </p>
        <CopyAs draft={draft} disabled={obstacle !== undefined} />
        <ActionButton
          variant="default"
          disabled={obstacle !== undefined}
          loading={planning.planning.busy}
          onClick={planning.make}
        >
          Plan
        </ActionButton>
        <ActionButton
          disabled={obstacle !== undefined}
          loading={start.isPending}
          onClick={() => start.mutate()}
        >
          Start
        </ActionButton>
      </div>
    </>
  );
}

/** Shows what has just come to the page, as a reader of screens hears it. */
function intoView(element: HTMLDivElement | null): void {
  element?.scrollIntoView({ block: "end" });
}

/** What is about to move, in words. */
function effectOf(draft: Draft): string {
  const { source, target, chosen } = draft;
  const from = `${source.site}:${source.store}${source.path === "" ? "" : `/${source.path}`}`;
  const to = `${target.site}:${target.store}${target.path === "" ? "" : `/${target.path}`}`;
  const what =
    chosen.length === 0
      ? `All that is in ${from}`
      : chosen.length === 1
        ? `${chosen[0]} of ${from}`
        : `${chosen.length} items of ${from}`;
  return `${what} → ${to}`;
}

/** Begins with this site, and with the first one that it is paired with. */
function useFirstPlaces(draft: Draft, setDraft: (change: (before: Draft) => Draft) => void) {
  const sites = useSites().data?.items;
  const isEmpty = draft.source.site === "" || draft.target.site === "";
  useEffect(() => {
    if (!isEmpty || sites === undefined) {
      return;
    }
    const own = sites.find((site) => site.own)?.name ?? "";
    const other = sites.find((site) => !site.own)?.name ?? own;
    setDraft((before) => ({
      ...before,
      source: before.source.site === "" ? { ...NO_PLACE, site: own } : before.source,
      target: before.target.site === "" ? { ...NO_PLACE, site: other } : before.target,
    }));
  }, [isEmpty, sites, setDraft]);
}

function CopyAs({ draft, disabled }: { draft: Draft; disabled: boolean }) {
  const [command, copyCommand] = useCopied();
  const [program, copyProgram] = useCopied();
  return (
    <>
      <Button
        variant="subtle"
        color="gray"
        className={classes.copy}
        leftSection={<IconCopy size={15} />}
        disabled={disabled}
        onClick={() => copyCommand(commandOf(draft))}
      >
        {copyWords(command, "Copy as command")}
      </Button>
      <Button
        variant="subtle"
        color="gray"
        className={classes.copy}
        leftSection={<IconCopy size={15} />}
        disabled={disabled}
        onClick={() => copyProgram(pythonOf(draft))}
      >
        {copyWords(program, "Copy as Python")}
      </Button>
    </>
  );
}

const STORES = `[[store]]
name = "try"
path = "mem:files=200,size=1M,dirs=4"
read_only = true
[[store]]
name = "void"
path = "null:"`;

/** A first transfer that needs no data: generated at one end, discarded at the other. */
function Trial({ draft, onTry }: { draft: Draft; onTry: (change: Partial<Draft>) => void }) {
  const sites = useSites().data?.items ?? [];
  const own = sites.find((site) => site.own)?.name ?? "";
  const stores = useStoresOf(own).data;
  const made = stores?.find((store) => store.place.startsWith("mem:"));
  const gone = stores?.find((store) => store.place === "null:");
  const isChosen = draft.source.store === made?.name && draft.target.store === gone?.name;
  if (stores === undefined || isChosen || lastPlaces() !== undefined) {
    return null;
  }
  return (
    <div className={`${classes.whole} ${classes.trial}`}>
      {made && gone ? (
        <>
          <p>
            No data at hand? The store {made.name} makes some, and {gone.name} takes it and keeps
            nothing.
          </p>
          <Button
            size="compact-sm"
            variant="default"
            onClick={() =>
              onTry({
                source: { site: own, store: made.name, path: "" },
                target: { site: own, store: gone.name, path: "" },
                chosen: [],
                label: draft.label || "first try",
              })
            }
          >
            Try it with generated data
          </Button>
        </>
      ) : (
        <details>
          <summary>No data at hand? Two stores that need no disk make a first try.</summary>
          <p className="dim">
            Add them to penstock.toml, and let the daemon read it again by{" "}
            <code>penstock config reload</code>.
          </p>
          <CommandBox command={STORES} label="Copy the stores" />
        </details>
      )}
    </div>
  );
}
