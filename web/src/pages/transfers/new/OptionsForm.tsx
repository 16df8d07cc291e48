/** The options of a transfer: defaults as they are, and a mark at each that differs. */

import { Button, Checkbox, NativeSelect, Switch, Textarea, TextInput } from "@mantine/core";
import { useId, useState } from "react";
import { useRight } from "../../../api/queries";
import { IconClose, IconDown, IconNext } from "../../../ui/icons";
import { Panel } from "../../../ui/Panel";
import {
  changedFields,
  FIELDS,
  type Field,
  faultOf,
  GROUPS,
  inForce,
  isSame,
  type Value,
  type Values,
  withValue,
} from "./fields";
import classes from "./OptionsForm.module.css";

interface Props {
  values: Values;
  onValues: (values: Values) => void;
  label: string;
  onLabel: (label: string) => void;
  rest: Record<string, unknown>;
  onRest: (rest: Record<string, unknown>) => void;
}

export function OptionsForm({ values, onValues, label, onLabel, rest, onRest }: Props) {
  const [open, setOpen] = useState(false);
  const body = useId();
  const changed = changedFields(values);
  const count = changed.length + (Object.keys(rest).length > 0 ? 1 : 0);
  return (
    <Panel
      title="Options"
      aside={count === 0 ? "all as usual" : `${count} changed`}
      actions={
        <Button
          size="compact-sm"
          variant="subtle"
          aria-expanded={open}
          aria-controls={body}
          rightSection={open ? <IconDown size={15} /> : <IconNext size={15} />}
          onClick={() => setOpen(!open)}
        >
          {open ? "Hide options" : "Change options"}
        </Button>
      }
    >
      <div className={classes.head}>
        <TextInput
          label="Label"
          placeholder="A note for lists"
          maxLength={200}
          value={label}
          onChange={(event) => onLabel(event.currentTarget.value)}
        />
        <div>
          <Summary values={values} />
          <ul className={classes.chips} aria-label="Changed options">
            {changed.map((field) => (
              <Chip
                key={field.key}
                text={chipText(field, inForce(values, field))}
                bad={faultOf(field, inForce(values, field)) !== undefined}
                onRemove={() => onValues(withValue(values, field, field.fallback))}
              />
            ))}
            {Object.keys(rest).length > 0 && (
              <Chip
                text={`As before: ${Object.keys(rest).join(", ")}`}
                onRemove={() => onRest({})}
              />
            )}
          </ul>
        </div>
      </div>
      <div id={body} hidden={!open} className={classes.groups}>
        {open &&
          GROUPS.map((group) => (
            <Group key={group} group={group} values={values} onValues={onValues} />
          ))}
      </div>
    </Panel>
  );
}

/** What holds, in one sentence, so that nobody has to open the options to know. */
function Summary({ values }: { values: Values }) {
  const is = (key: string, value: Value) => values[key] === value;
  const facts = [
    is("options.update.sync", true) ? "leaves what is the same" : undefined,
    {
      skip: "leaves what is there",
      newer: "replaces what is older",
      fail: "fails where a name is taken",
    }[String(values["options.update.if_exists"])] ?? "replaces what differs",
    is("options.update.delete", true) ? "deletes what the source does not have" : undefined,
    is("options.remove_source", true) ? "removes at the source" : undefined,
    values["options.preserve"] ? "keeps some attributes" : "keeps all attributes",
    `verified with ${is("options.digest", "xxh3-128") ? "XXH3" : "BLAKE3"}`,
    is("options.encryption", "off") ? "not encrypted" : "encrypted",
  ].filter((fact) => fact !== undefined);
  return <p className={classes.summary}>{facts.join(" · ")}</p>;
}

function chipText(field: Field, value: Value): string {
  if (field.kind === "switch") {
    return value === true ? field.label : `No ${field.label.toLowerCase()}`;
  }
  if (field.kind === "choice") {
    const words = field.choices?.find(([name]) => name === value)?.[1] ?? String(value);
    return `${field.label}: ${words.toLowerCase()}`;
  }
  if (Array.isArray(value)) {
    return `${field.label}: ${value.length === 0 ? "none" : value.join(", ")}`;
  }
  return `${field.label}: ${String(value).split("\n").join(", ").replace("T", " ")}`;
}

interface ChipProps {
  text: string;
  bad?: boolean;
  onRemove: () => void;
}

function Chip({ text, bad = false, onRemove }: ChipProps) {
  return (
    <li className={classes.chip} data-bad={bad || undefined}>
      <span>{text}</span>
      <button type="button" aria-label={`Take back: ${text}`} onClick={onRemove}>
        <IconClose size={14} aria-hidden />
      </button>
    </li>
  );
}

interface GroupProps {
  group: string;
  values: Values;
  onValues: (values: Values) => void;
}

function Group({ group, values, onValues }: GroupProps) {
  const operates = useRight("operate");
  const fields = FIELDS.filter(
    (field) =>
      field.group === group && (!field.operator || operates) && (field.when?.(values) ?? true),
  );
  return (
    <fieldset className={classes.group}>
      <legend>{group}</legend>
      {fields.map((field) => (
        <Input
          key={field.key}
          field={field}
          value={inForce(values, field)}
          onValue={(value) => onValues(withValue(values, field, value))}
        />
      ))}
    </fieldset>
  );
}

interface InputProps {
  field: Field;
  value: Value;
  onValue: (value: Value) => void;
}

function Input({ field, value, onValue }: InputProps) {
  const shared = { label: field.label, description: field.help, size: "sm" as const };
  const isChanged = !isSame(value, field.fallback);
  return (
    <div className={classes.field} data-changed={isChanged || undefined}>
      {field.kind === "switch" ? (
        <Switch
          {...shared}
          checked={value === true}
          onChange={(event) => onValue(event.currentTarget.checked)}
        />
      ) : field.kind === "choice" ? (
        <NativeSelect
          {...shared}
          data={(field.choices ?? []).map(([name, label]) => ({ value: name, label }))}
          value={String(value)}
          onChange={(event) => onValue(event.currentTarget.value)}
        />
      ) : field.kind === "many" ? (
        <Checkbox.Group {...shared} value={value as string[]} onChange={onValue}>
          <div className={classes.many}>
            {field.choices?.map(([name, label]) => (
              <Checkbox key={name} value={name} label={label} size="xs" />
            ))}
          </div>
        </Checkbox.Group>
      ) : field.kind === "lines" ? (
        <Textarea
          {...shared}
          rows={3}
          classNames={{ input: classes.lines }}
          placeholder={field.placeholder}
          value={String(value)}
          onChange={(event) => onValue(event.currentTarget.value)}
        />
      ) : (
        <TextInput
          {...shared}
          type={field.kind === "time" ? "datetime-local" : "text"}
          placeholder={field.placeholder}
          error={faultOf(field, value)}
          value={String(value)}
          onChange={(event) => onValue(event.currentTarget.value)}
        />
      )}
    </div>
  );
}
