/** A transfer as the form has it, and the request, command and program that are the same. */

import type { Schemas } from "../../../api/client";
import { changedFields, FIELDS, faultOf, inForce, isSame, type Values, withValue } from "./fields";

export interface PlaceDraft {
  site: string;
  store: string;
  /** As the API writes paths: bytes that are not UTF-8 are escapes. */
  path: string;
}

export interface Draft {
  source: PlaceDraft;
  target: PlaceDraft;
  /** Paths within the source that are to move; none moves all that is in it. */
  chosen: string[];
  label: string;
  values: Values;
  /** Options of a former transfer that the form does not offer. */
  rest: Record<string, unknown>;
}

export const NO_PLACE: PlaceDraft = { site: "", store: "", path: "" };

export function emptyDraft(source = NO_PLACE, target = NO_PLACE): Draft {
  return { source, target, chosen: [], label: "", values: {}, rest: {} };
}

/** Joins paths, either of which may be empty. */
export function joined(path: string, name: string): string {
  return path !== "" && name !== "" ? `${path}/${name}` : path + name;
}

/** Returns the directory that holds a path; that of a store's root is the root. */
export function parentOf(path: string): string {
  return path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "";
}

/** Returns the only item that is to move, where it is one directly in the source. */
function onlyOne(draft: Draft): string | undefined {
  const [first, second] = draft.chosen;
  return second === undefined && first !== undefined && !first.includes("/") ? first : undefined;
}

type Body = Schemas["SubmitRequest"];

/** Returns the two places as the request has them. */
export function placesOf(draft: Draft): Pick<Body, "source" | "target"> {
  const { site, store, path } = draft.source;
  const one = onlyOne(draft);
  return {
    source: { site, store, path: one === undefined ? path : joined(path, one), slash: !one },
    target: { ...draft.target, slash: true },
  };
}

/** Returns why the draft cannot be submitted; undefined if it can. */
export function obstacleOf(draft: Draft): string | undefined {
  if (draft.source.store === "") {
    return "Choose a store to read from.";
  }
  if (draft.target.store === "") {
    return "Choose a store to write to.";
  }
  const field = changedFields(draft.values).find((one) => faultOf(one, inForce(draft.values, one)));
  return field && `${field.label}: ${faultOf(field, inForce(draft.values, field))}.`;
}

/** Sets a value at a path such as `options.update.sync`. */
function put(into: Record<string, unknown>, path: string, value: unknown): void {
  const names = path.split(".");
  const last = names.pop() ?? "";
  let at = into;
  for (const name of names) {
    at[name] ??= {};
    at = at[name] as Record<string, unknown>;
  }
  const before = at[last];
  const merge = typeof value === "object" && value !== null && typeof before === "object";
  at[last] = merge && !Array.isArray(value) ? { ...before, ...value } : value;
}

function optionsOf(draft: Draft): Record<string, unknown> {
  const made: Record<string, unknown> = { options: structuredClone(draft.rest) };
  if (inForce(draft.values, RECEIPT) === true) {
    put(made, RECEIPT.key, true);
  }
  for (const field of changedFields(draft.values)) {
    const json = field.json(inForce(draft.values, field));
    if (json !== undefined) {
      put(made, field.key, json);
    }
  }
  if (draft.chosen.length > 0 && onlyOne(draft) === undefined) {
    put(made, "options.files_from", draft.chosen);
  }
  return made;
}

/** The page asks for a receipt unless it is told not to, as the Python client does. */
const RECEIPT = FIELDS.find((field) => field.key === "options.proof.receipt") as (typeof FIELDS)[0];

/** Returns the body of the request. */
export function bodyOf(draft: Draft, id: string): Body {
  const label = draft.label.trim();
  return {
    id,
    ...placesOf(draft),
    ...(label === "" ? {} : { label }),
    ...optionsOf(draft),
  } as Body;
}

/** Returns 32 hexadecimal digits by chance. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Returns a place as the command line takes it. */
export function placeText(place: PlaceDraft, slash: boolean): string {
  const path = place.path === "" ? "" : `/${place.path}${slash ? "/" : ""}`;
  return `${place.site}:${place.store}${path}`;
}

/** Quotes a word for a shell where that is needed. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function textsOf(draft: Draft): { source: string; target: string } {
  const one = onlyOne(draft);
  const path = one === undefined ? draft.source.path : joined(draft.source.path, one);
  return {
    source: placeText({ ...draft.source, path }, one === undefined),
    target: placeText(draft.target, true),
  };
}

/** Returns the command that submits the same transfer. */
export function commandOf(draft: Draft): string {
  const { source, target } = textsOf(draft);
  const words = ["penstock", "transfer", "submit", quoted(source), quoted(target)];
  if (draft.label.trim() !== "") {
    words.push("--label", quoted(draft.label.trim()));
  }
  const isList = draft.chosen.length > 0 && onlyOne(draft) === undefined;
  if (inForce(draft.values, RECEIPT) === true) {
    words.push("--wait", ...RECEIPT.flag(true));
  }
  for (const field of changedFields(draft.values)) {
    const flags = field.flag(inForce(draft.values, field));
    words.push(...flags.map((word, place) => (place % 2 === 0 ? word : quoted(word))));
  }
  if (!isList) {
    return words.join(" ");
  }
  const paths = draft.chosen.map(quoted).join(" ");
  return `printf '%s\\n' ${paths} | ${words.join(" ")} --files-from -`;
}

/** The classes of the Python client for the parts of the options. */
const CLASSES: Record<string, string> = {
  update: "UpdateOptions",
  select: "Selection",
  proof: "Proof",
  limits: "Limits",
  preserve: "Preserve",
  rules: "SelectRule",
  newer_than: "Newer",
  time: "FileTime",
};

/** Returns the Python program that submits the same transfer. */
export function pythonOf(draft: Draft): string {
  const { source, target } = textsOf(draft);
  const used = new Set<string>();
  const { options = {}, deadline, ...turn } = optionsOf(draft) as Record<string, object>;
  // A receipt is the default of the client too.
  const { proof, ...others } = structuredClone(options) as Record<string, Record<string, unknown>>;
  if (proof?.receipt === true) {
    delete proof.receipt;
  }
  const asked = { ...others, ...(proof && Object.keys(proof).length > 0 ? { proof } : {}) };
  const lines = [python(source), python(target)];
  if (Object.keys(asked).length > 0) {
    used.add("TransferOptions");
    lines.push(`options=TransferOptions(${argumentsOf(asked, used)})`);
  }
  if (draft.label.trim() !== "") {
    lines.push(`label=${python(draft.label.trim())}`);
  }
  const { at, policy } = (deadline ?? {}) as { at?: string; policy?: string };
  const times = { ...turn, ...(at ? { deadline: at } : {}) } as Record<string, unknown>;
  if (at && policy) {
    times.deadline_policy = policy;
  }
  let needsTime = false;
  for (const [name, value] of Object.entries(times)) {
    const isTime = name === "deadline" || name === "not_before";
    needsTime ||= isTime;
    const text = python(value);
    lines.push(`${name}=${isTime ? `datetime.fromisoformat(${text})` : text}`);
  }
  const names = ["Penstock", ...used].sort().join(", ");
  return [
    ...(needsTime ? ["from datetime import datetime", ""] : []),
    `from penstock import ${names}`,
    "",
    "with Penstock.from_env() as p:",
    "    transfer = p.transfers.submit(",
    ...lines.map((line) => `        ${line},`),
    "    )",
    "    print(transfer.wait().state)",
    "",
  ].join("\n");
}

function argumentsOf(fields: object, used: Set<string>): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name}=${python(value, name, used)}`)
    .join(", ");
}

function python(value: unknown, name = "", used = new Set<string>()): string {
  if (typeof value === "boolean") {
    return value ? "True" : "False";
  }
  if (value === null || value === undefined) {
    return "None";
  }
  if (Array.isArray(value)) {
    return `[${value.map((one) => python(one, name, used)).join(", ")}]`;
  }
  if (typeof value !== "object") {
    return JSON.stringify(value);
  }
  const kind = CLASSES[name];
  if (kind === undefined) {
    return JSON.stringify(value);
  }
  used.add(kind);
  return `${kind}(${argumentsOf(value, used)})`;
}

/** Options that the daemon fills in, and that are no wish of a user. */
const OWN = new Set(["plan", "files_from"]);

/** Returns the draft of the same transfer once more. Its times are over, and are left out. */
export function draftOf(view: Schemas["TransferView"]): Draft {
  const { source, target, options } = view;
  const paths = options.files_from as string[];
  const single = paths.length === 0 && !source.slash && source.path !== "";
  const path = String(source.path);
  const draft = emptyDraft(
    { site: source.site, store: source.store, path: single ? parentOf(path) : path },
    { site: target.site, store: target.store, path: String(target.path) },
  );
  draft.chosen = single ? [path.slice(path.lastIndexOf("/") + 1)] : paths;
  draft.label = view.label ?? "";
  const asked = { options, priority: view.priority, urgent: view.urgent } as object;
  const known = new Set<string>();
  for (const field of FIELDS) {
    const json = at(asked, field.key);
    known.add(field.key);
    const isAbsent =
      json === undefined || json === null || (json === 0 && !KEEPS_ZERO.has(field.key));
    if (!isAbsent && !field.key.startsWith("deadline") && field.key !== "not_before") {
      const value = field.form(json);
      draft.values = isSame(value, "") ? draft.values : withValue(draft.values, field, value);
    }
  }
  draft.rest = restOf(options as unknown as Record<string, unknown>, known);
  return draft;
}

/** Options of which 0 is a value: nothing may be deleted, and the lowest priority. */
const KEEPS_ZERO: ReadonlySet<string> = new Set(["options.update.max_delete", "priority"]);

/** Returns the options beyond those of the form that say something. */
function restOf(options: Record<string, unknown>, known: Set<string>): Record<string, unknown> {
  const rest: Record<string, unknown> = {};
  const walk = (fields: object, path: string) => {
    for (const [name, value] of Object.entries(fields)) {
      const key = `${path}.${name}`;
      const isNone = value === null || value === 0 || value === false || value === "";
      if (OWN.has(name) || isNone || (Array.isArray(value) && value.length === 0)) {
        continue;
      }
      if (key === "options.preserve") {
        const { strict, owner_map } = value as { strict?: boolean; owner_map?: string[] };
        Object.assign(rest, strict || owner_map?.length ? { preserve: { strict, owner_map } } : {});
      } else if (!known.has(key)) {
        if (typeof value === "object" && !Array.isArray(value)) {
          walk(value, key);
        } else {
          put(rest, key.replace(/^options\./, ""), value);
        }
      }
    }
  };
  walk(options, "options");
  return rest;
}

function at(from: unknown, path: string): unknown {
  return path
    .split(".")
    .reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], from);
}
