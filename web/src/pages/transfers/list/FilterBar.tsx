/** The filter of the list: states as chips, the rest as fields, all of it in the address. */

import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { useSites } from "../../../api/queries";
import { sentence } from "../../../ui/format";
import { IconAlert, IconClose, IconSearch } from "../../../ui/icons";
import { useOwnSite, useStoresOf } from "../new/browse";
import classes from "./FilterBar.module.css";
import { chipsOf, type Filter, STATES, TIMES } from "./filter";

interface Props {
  filter: Filter;
  onFilter: (filter: Filter) => void;
  /** Owners seen in the list, to choose among. */
  owners: string[];
}

/** Pause in typing after which a text counts, in milliseconds. */
const PAUSE_MS = 250;

export function FilterBar({ filter, onFilter, owners }: Props) {
  const sites = useSites().data?.items ?? [];
  const stores = useStoresOf(useOwnSite()).data ?? [];
  const set = (change: Partial<Filter>) => onFilter({ ...filter, ...change });
  const choices = (all: string, names: string[], now: string) => [
    { value: "", label: all },
    ...[...new Set(now === "" ? names : [...names, now])].map((name) => ({
      value: name,
      label: name,
    })),
  ];
  const [open, setOpen] = useState(false);
  return (
    <div className={classes.bar}>
      <fieldset className={classes.states}>
        <legend className={classes.legend}>States</legend>
        <Toggle
          on={filter.states.length === 0 && !filter.attention}
          label="All"
          onClick={() => set({ states: [], attention: false })}
        />
        <Toggle
          on={filter.attention}
          label="Needs attention"
          icon
          onClick={() => set({ attention: !filter.attention })}
        />
        {STATES.map((state) => (
          <Toggle
            key={state}
            on={filter.states.includes(state)}
            label={sentence(state)}
            onClick={() =>
              set({
                states: filter.states.includes(state)
                  ? filter.states.filter((one) => one !== state)
                  : [...filter.states, state],
              })
            }
          />
        ))}
      </fieldset>
      <div className={classes.fields} data-open={open || undefined}>
        <LabelField value={filter.label} onValue={(label) => set({ label })} />
        <Button
          size="xs"
          variant="default"
          className={classes.more}
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          {open ? "Fewer filters" : "More filters"}
        </Button>
        <NativeSelect
          size="xs"
          aria-label="Site"
          data={choices(
            "Any site",
            sites.map((site) => site.name),
            filter.site,
          )}
          value={filter.site}
          onChange={(event) => set({ site: event.currentTarget.value })}
        />
        <NativeSelect
          size="xs"
          aria-label="Store"
          data={choices(
            "Any store",
            stores.map((store) => store.name),
            filter.store,
          )}
          value={filter.store}
          onChange={(event) => set({ store: event.currentTarget.value })}
        />
        <NativeSelect
          size="xs"
          aria-label="Owner"
          data={choices("Any owner", owners, filter.owner)}
          value={filter.owner}
          onChange={(event) => set({ owner: event.currentTarget.value })}
        />
        <NativeSelect
          size="xs"
          aria-label="Submitted"
          data={[
            { value: "", label: "Any time" },
            ...Object.entries(TIMES).map(([value, [, label]]) => ({ value, label })),
          ]}
          value={filter.since}
          onChange={(event) => set({ since: event.currentTarget.value })}
        />
        <NativeSelect
          size="xs"
          aria-label="Order"
          data={[
            { value: "", label: "Newest first" },
            { value: "created", label: "Oldest first" },
          ]}
          value={filter.oldest ? "created" : ""}
          onChange={(event) => set({ oldest: event.currentTarget.value !== "" })}
        />
      </div>
      <Chips filter={filter} onFilter={onFilter} />
    </div>
  );
}

interface ToggleProps {
  on: boolean;
  label: string;
  icon?: boolean;
  onClick: () => void;
}

function Toggle({ on, label, icon = false, onClick }: ToggleProps) {
  return (
    <button type="button" aria-pressed={on} className={classes.toggle} onClick={onClick}>
      {icon && <IconAlert size={14} aria-hidden />}
      {label}
    </button>
  );
}

function LabelField({ value, onValue }: { value: string; onValue: (value: string) => void }) {
  const [text, setText] = useState(value);
  const sent = useRef(value);
  const latest = useRef(onValue);
  latest.current = onValue;
  useEffect(() => {
    if (value !== sent.current) {
      // Taken away by its chip, or by going back.
      sent.current = value;
      setText(value);
    }
  }, [value]);
  useEffect(() => {
    if (text === sent.current) {
      return;
    }
    const timer = window.setTimeout(() => {
      sent.current = text;
      latest.current(text);
    }, PAUSE_MS);
    return () => window.clearTimeout(timer);
  }, [text]);
  return (
    <TextInput
      size="xs"
      className={classes.label}
      aria-label="Part of the label"
      placeholder="Part of the label"
      leftSection={<IconSearch size={15} aria-hidden />}
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
    />
  );
}

function Chips({ filter, onFilter }: Omit<Props, "owners">) {
  // The states are chips already.
  const chips = chipsOf({ ...filter, states: [], attention: false });
  if (chips.length === 0) {
    return null;
  }
  return (
    <ul className={classes.chips} aria-label="Filters">
      {chips.map((chip) => (
        <li key={chip.key}>
          <button
            type="button"
            className={classes.chip}
            onClick={() => onFilter({ ...filter, ...chip.without })}
          >
            {chip.text}
            <IconClose size={14} aria-label="remove" />
          </button>
        </li>
      ))}
    </ul>
  );
}
