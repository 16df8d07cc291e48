/** How a transfer was asked for: what differs from the defaults, all options, and as a command. */

import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { CommandBox } from "../../../ui/Copy";
import { formatCount } from "../../../ui/format";
import { Loaded } from "../../../ui/Loaded";
import { Panel } from "../../../ui/Panel";
import { FIELDS, type Field, GROUPS, inForce, isSame, type Value } from "../new/fields";
import { commandOf, type Draft, draftOf, pythonOf } from "../new/request";
import classes from "./OptionsTab.module.css";
import type { TransferView } from "./useTransfer";

export function OptionsTab({ view }: { view: TransferView }) {
  const whole = useQuery({
    queryKey: [...keys.transfer(view.id), "options"],
    queryFn: ({ signal }) => {
      const params = { path: { id: view.id }, query: { include: "options" as const } };
      return unwrap(api.GET("/api/v1/transfers/{id}", { params, signal }));
    },
  });
  return (
    <Loaded query={whole}>
      {(data) => {
        const draft = draftOf(data);
        return (
          <div className={classes.column}>
            <Panel title="As it was asked for">
              <Facts draft={draft} count={data.files_from_count} />
            </Panel>
            <Panel title="Repeat this transfer">
              <div className={classes.programs}>
                <CommandBox command={commandOf(draft)} />
                <CommandBox command={pythonOf(draft)} label="Copy the program" />
              </div>
            </Panel>
          </div>
        );
      }}
    </Loaded>
  );
}

function Facts({ draft, count }: { draft: Draft; count: number }) {
  const rest = Object.entries(draft.rest);
  return (
    <div className={classes.groups}>
      {count > 0 && <p>It moves {formatCount(count)} named paths of the source.</p>}
      {GROUPS.map((group) => {
        const fields = FIELDS.filter(
          (field) => field.group === group && (field.when?.(draft.values) ?? true),
        ).filter((field) => field.key !== "not_before" && !field.key.startsWith("deadline"));
        return (
          <section key={group} aria-label={group}>
            <h3 className={classes.title}>{group}</h3>
            <dl className={classes.facts}>
              {fields.map((field) => (
                <Fact key={field.key} field={field} value={inForce(draft.values, field)} />
              ))}
            </dl>
          </section>
        );
      })}
      {rest.length > 0 && (
        <section aria-label="For experts">
          <h3 className={classes.title}>For experts</h3>
          <dl className={classes.facts}>
            {rest.map(([name, value]) => (
              <div key={name} data-changed>
                <dt>{name}</dt>
                <dd className="mono">{JSON.stringify(value)}</dd>
              </div>
            ))}
          </dl>
        </section>
      )}
    </div>
  );
}

function Fact({ field, value }: { field: Field; value: Value }) {
  return (
    <div data-changed={!isSame(value, field.fallback) || undefined}>
      <dt>{field.label}</dt>
      <dd>{valueWords(field, value)}</dd>
    </div>
  );
}

function valueWords(field: Field, value: Value): string {
  if (field.kind === "switch") {
    return value === true ? "yes" : "no";
  }
  if (field.kind === "choice") {
    return field.choices?.find(([name]) => name === value)?.[1] ?? String(value);
  }
  if (Array.isArray(value)) {
    const words = (field.choices ?? []).filter(([name]) => value.includes(name));
    const isAll = field.key === "options.preserve" && words.length === field.choices?.length;
    return isAll ? "all" : words.map(([, label]) => label).join(", ") || "none";
  }
  if (value === "") {
    return field.kind === "lines" ? "none" : (field.placeholder ?? "any time");
  }
  return String(value);
}
