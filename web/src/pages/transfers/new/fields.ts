/**
 * The options that the form offers: each with its default, its place in the request, and its words
 * on the command line. The form, the request, the command and the program are made from them.
 */

import { localOf, parseRate, parseSize, rateText, sizeText, timeOf } from "../../../ui/field-text";

export type Value = string | boolean | string[];
/** Values that differ from their defaults, by the key of their field. */
export type Values = Record<string, Value>;

export interface Field {
  /** The path within the request, as `options.update.sync`. */
  key: string;
  group: string;
  label: string;
  help: string;
  kind: "switch" | "choice" | "text" | "lines" | "time" | "many";
  fallback: Value;
  /** Value and words of each choice. */
  choices?: readonly (readonly [string, string])[];
  placeholder?: string;
  /** Offered only if this says so. */
  when?: (values: Values) => boolean;
  /** For operators only. */
  operator?: boolean;
  /** The value as the request has it; undefined if the text is none. */
  json: (value: Value) => unknown;
  /** The value of the form for one of the API. */
  form: (json: unknown) => Value;
  /** Words of the command line. */
  flag: (value: Value) => string[];
  /** What is wrong with a text that is none. */
  fault?: string;
}

const same = (value: Value): unknown => value;
const back = (json: unknown): Value => json as Value;

type Base = Pick<Field, "key" | "group" | "label" | "help"> & Partial<Field>;

function toggle(flag: string[], base: Base): Field {
  const shared = { fallback: false, json: same, form: back };
  return { kind: "switch", ...shared, flag: () => flag, ...base };
}

function choice(flag: string, choices: Field["choices"], base: Base): Field {
  const fallback = choices?.[0]?.[0] ?? "";
  const words = (value: Value) => [flag, String(value)];
  return { kind: "choice", choices, fallback, json: same, form: back, flag: words, ...base };
}

function text(flag: string, base: Base): Field {
  const words = (value: Value) => [flag, String(value)];
  const json = (value: Value) => (value === "" ? undefined : value);
  return { kind: "text", fallback: "", json, form: back, flag: words, ...base };
}

function count(flag: string, base: Base): Field {
  return text(flag, {
    json: (value) => (/^\d+$/.test(String(value).trim()) ? Number(value) : undefined),
    form: String,
    fault: "A whole number",
    ...base,
  });
}

function size(flag: string, base: Base): Field {
  return text(flag, {
    json: (value) => parseSize(String(value)),
    form: (json) => sizeText(Number(json)),
    flag: (value) => [flag, String(value).replace(/\s/g, "")],
    fault: "A size, as 64K, 1.5GiB or 2GB",
    ...base,
  });
}

/** What `preserve` can leave out. */
export const ATTRIBUTES: readonly (readonly [string, string])[] = [
  ["mode", "Permissions"],
  ["owner", "Owners"],
  ["times", "Times"],
  ["links", "Symbolic links"],
  ["hardlinks", "Hard links"],
  ["sparse", "Holes"],
  ["xattrs", "Extended attributes"],
  ["acls", "ACLs"],
  ["devices", "Devices and FIFOs"],
];

const CHECKSUMS = ["md5", "sha1", "sha256", "sha512", "xxh128", "xxh3", "xxh64", "crc32"];
const MORE_CHECKSUMS = ["crc32c", "adler32"];

interface Rule {
  include: boolean;
  glob: string;
}

function rulesOf(value: Value): Rule[] {
  return String(value)
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line.trim() !== "" && !line.startsWith("#"))
    .map((line) => ({ include: line.startsWith("+ "), glob: line.replace(/^[+-] /, "") }));
}

function namesOf(value: Value): string[] {
  return String(value)
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

const THERE = "What exists at the target";
const CHOICE = "Which items move";
const PROOF = "Verification and proof";
const KEPT = "Attributes";
const LIMITS = "Limits";
const TURN = "When";

export const GROUPS = [THERE, CHOICE, PROOF, KEPT, LIMITS, TURN];

export const FIELDS: readonly Field[] = [
  choice(
    "--if-exists",
    [
      ["replace", "Replace it, in one step"],
      ["skip", "Leave it, and count it as skipped"],
      ["newer", "Replace it if the source is newer"],
      ["fail", "Leave it, and count it as failed"],
    ],
    {
      key: "options.update.if_exists",
      group: THERE,
      label: "A different item of the same name",
      help: "Items are replaced when the new one is complete and durable, never before.",
    },
  ),
  toggle(["--sync"], {
    key: "options.update.sync",
    group: THERE,
    label: "Leave what is the same",
    help: "Skips files of the same size and time, and links with the same text.",
  }),
  choice(
    "--compare",
    [
      ["time", "By size and time"],
      ["digest", "By BLAKE3 of the content"],
    ],
    {
      key: "options.update.compare",
      group: THERE,
      label: "How files are compared",
      help: "By content, both sides read all files of the same size.",
      when: (values) => values["options.update.sync"] === true,
    },
  ),
  toggle(["--delete"], {
    key: "options.update.delete",
    group: THERE,
    label: "Delete what the source does not have",
    help: "After all else. Nothing is deleted after a scan error, or if over half would go.",
  }),
  count("--max-delete", {
    key: "options.update.max_delete",
    group: THERE,
    label: "Delete at most",
    help: "Items. Nothing is deleted if there are more. Empty: half of the target.",
    placeholder: "half of the target",
    when: (values) => values["options.update.delete"] === true,
  }),
  text("--backup-dir", {
    key: "options.update.backup_dir",
    group: THERE,
    label: "Keep what is replaced or deleted in",
    help: "A directory below the target.",
    placeholder: "nowhere",
  }),
  toggle(["--remove-source"], {
    key: "options.remove_source",
    group: CHOICE,
    label: "Move: remove at the source",
    help: "Each item goes when it is durable at the target. The source store must allow it.",
  }),
  {
    key: "options.select.rules",
    group: CHOICE,
    label: "Rules on names",
    help: "One a line, as in .gitignore: - *.tmp leaves out, + keep/ takes. The first match decides.",
    kind: "lines",
    fallback: "",
    placeholder: "- *.tmp\n+ raw/",
    json: rulesOf,
    form: (json) =>
      (json as Rule[]).map((rule) => `${rule.include ? "+" : "-"} ${rule.glob}`).join("\n"),
    flag: (value) =>
      rulesOf(value).flatMap((rule) => [rule.include ? "--include" : "--exclude", rule.glob]),
  },
  size("--min-size", {
    key: "options.select.size_min_bytes",
    group: CHOICE,
    label: "Files from",
    help: "The least size.",
    placeholder: "any size",
  }),
  size("--max-size", {
    key: "options.select.size_max_bytes",
    group: CHOICE,
    label: "Files up to",
    help: "The greatest size.",
    placeholder: "any size",
  }),
  {
    key: "options.select.newer_than",
    group: CHOICE,
    label: "Files modified after",
    help: "In the time of this browser.",
    kind: "time",
    fallback: "",
    json: (value) => {
      const at = timeOf(String(value));
      return at && { time: { seconds: Date.parse(at) / 1000, nanoseconds: 0 } };
    },
    form: (json) => {
      const { time } = json as { time?: { seconds: number } };
      return time ? localOf(time.seconds * 1000) : "";
    },
    flag: (value) => ["--newer-than", timeOf(String(value)) ?? ""],
  },
  toggle(["--one-file-system"], {
    key: "options.select.one_file_system",
    group: CHOICE,
    label: "Stay in one file system",
    help: "Does not enter file systems that are mounted below the source.",
  }),
  choice(
    "--digest",
    [
      ["blake3", "BLAKE3: accidents and attacks"],
      ["xxh3-128", "XXH3: accidents only"],
    ],
    {
      key: "options.digest",
      group: PROOF,
      label: "Hash that verifies the data",
      help: "XXH3 gives no digests of files.",
    },
  ),
  toggle(["--readback"], {
    key: "options.proof.readback",
    group: PROOF,
    label: "Read back from storage",
    help: "Reads every file again past the page cache, and compares it. Costs one read of all data.",
  }),
  toggle(["--receipt", "receipt.json"], {
    key: "options.proof.receipt",
    group: PROOF,
    label: "Signed receipt",
    help: "A statement of what was moved, signed by both sites.",
    fallback: true,
    flag: (value) => (value ? ["--receipt", "receipt.json"] : []),
  }),
  toggle(["--write-digests", "digests.b3"], {
    key: "options.digest_list",
    group: PROOF,
    label: "List of digests",
    help: "For b3sum --check.",
  }),
  {
    key: "options.proof.also_digests",
    group: PROOF,
    label: "Further checksums for catalogues",
    help: "Reads all data at the target once more, mostly from memory.",
    kind: "many",
    fallback: [],
    choices: [...CHECKSUMS, ...MORE_CHECKSUMS].map((one) => [one, one] as const),
    json: same,
    form: back,
    flag: (value) => ["--also-digest", (value as string[]).join(",")],
  },
  choice(
    "--durability",
    [
      ["batch", "In batches"],
      ["fsync", "Each file by itself"],
      ["none", "Not at all: a power cut may lose files"],
    ],
    {
      key: "options.durability",
      group: PROOF,
      label: "Made durable",
      help: "When a file counts as safe on storage.",
    },
  ),
  choice(
    "--encryption",
    [
      ["tls", "TLS 1.3"],
      ["off", "Off: the data is readable on the network"],
    ],
    {
      key: "options.encryption",
      group: PROOF,
      label: "Encryption on the network",
      help: "Control is always encrypted.",
    },
  ),
  {
    key: "options.preserve",
    group: KEPT,
    label: "Preserve",
    help: "What the target's store does not let in, or cannot hold, is counted.",
    kind: "many",
    fallback: ATTRIBUTES.map(([name]) => name),
    choices: ATTRIBUTES,
    json: (value) =>
      Object.fromEntries(
        ATTRIBUTES.filter(([name]) => !(value as string[]).includes(name)).map(([name]) => [
          name,
          false,
        ]),
      ),
    form: (json) =>
      ATTRIBUTES.map(([name]) => name).filter(
        (name) => (json as Record<string, unknown>)[name] !== false,
      ),
    flag: (value) => {
      const gone = ATTRIBUTES.map(([name]) => name).filter(
        (name) => !(value as string[]).includes(name),
      );
      return ["--no-preserve", gone.join(",")];
    },
  },
  text("--bwlimit", {
    key: "options.limits.rate_bits_per_s",
    group: LIMITS,
    label: "Rate",
    help: "Of file content, over all peers. It can be changed while the transfer runs.",
    placeholder: "no limit",
    json: (value) => {
      const rate = parseRate(String(value));
      return rate !== undefined && rate >= 500_000 ? rate : undefined;
    },
    form: (json) => rateText(Number(json)),
    flag: (value) => ["--bwlimit", String(value).replace(/\s/g, "")],
    fault: "A rate of at least 500 kbit/s, as 500 Mbit/s or 60 MB/s",
  }),
  count("--max-metadata-ops", {
    key: "options.limits.metadata_ops_per_s",
    group: LIMITS,
    label: "Metadata operations a second",
    help: "At each side: names looked up, files made and renamed.",
    placeholder: "no limit",
  }),
  count("--max-lanes", {
    key: "options.lanes_max",
    group: LIMITS,
    label: "Lanes at most",
    help: "The engine decides on fewer.",
    placeholder: "automatic",
  }),
  text("--networks", {
    key: "options.networks",
    group: LIMITS,
    label: "Networks",
    help: "Only these, by the names that either site has given to them, as fast0, fast1.",
    placeholder: "all networks for data",
    json: (value) => {
      const names = namesOf(value);
      return names.every((name) => /^[a-z0-9][a-z0-9_-]*$/.test(name)) ? names : undefined;
    },
    form: (json) => (json as string[]).join(", "),
    flag: (value) => ["--networks", namesOf(value).join(",")],
    fault: "Names of networks with commas between them",
  }),
  count("--max-peers", {
    key: "options.peers_max",
    group: LIMITS,
    label: "Peers of each site at most",
    help: "Others carry no data.",
    placeholder: "all that reach the stores",
  }),
  {
    key: "not_before",
    group: TURN,
    label: "Start not before",
    help: "In the time of this browser. Empty: as soon as it is its turn.",
    kind: "time",
    fallback: "",
    json: (value) => timeOf(String(value)),
    form: back,
    flag: (value) => ["--not-before", timeOf(String(value)) ?? ""],
  },
  {
    key: "deadline.at",
    group: TURN,
    label: "Be done by",
    help: "In the time of this browser.",
    kind: "time",
    fallback: "",
    json: (value) => timeOf(String(value)),
    form: back,
    flag: (value) => ["--deadline", timeOf(String(value)) ?? ""],
  },
  choice(
    "--deadline-policy",
    [
      ["promise", "Refuse the transfer if it cannot be kept"],
      ["best_effort", "Report when it is at risk"],
      ["cancel", "Cancel the transfer when it is late"],
    ],
    {
      key: "deadline.policy",
      group: TURN,
      label: "What the deadline means",
      help: "A promise reserves a place in the queue.",
      when: (values) => values["deadline.at"] !== undefined,
    },
  ),
  count("--priority", {
    key: "priority",
    group: TURN,
    label: "Priority among your own",
    help: "0 to 100.",
    placeholder: "50",
    json: (value) =>
      /^\d+$/.test(String(value)) && Number(value) <= 100 ? Number(value) : undefined,
    fault: "A number from 0 to 100",
  }),
  toggle(["--urgent"], {
    key: "urgent",
    group: TURN,
    label: "Urgent",
    help: "Starts before the transfers of all users.",
    operator: true,
  }),
  count("--attempts", {
    key: "attempts_max",
    group: TURN,
    label: "Attempts",
    help: "Gives up after so many in a row that move nothing.",
    placeholder: "until it is cancelled",
  }),
];

/** Returns whether two values are the same; the order of several does not matter. */
export function isSame(a: Value, b: Value): boolean {
  return Array.isArray(a) && Array.isArray(b)
    ? a.length === b.length && a.every((one) => b.includes(one))
    : a === b;
}

/** Returns the value of a field in force. */
export function inForce(values: Values, field: Field): Value {
  return values[field.key] ?? field.fallback;
}

/** Returns values with one changed; a default is not kept among them. */
export function withValue(values: Values, field: Field, value: Value): Values {
  const { [field.key]: _, ...others } = values;
  return isSame(value, field.fallback) ? others : { ...others, [field.key]: value };
}

/** Returns what is wrong with the value of a field. */
export function faultOf(field: Field, value: Value): string | undefined {
  const isGiven = !isSame(value, field.fallback) && value !== "";
  return isGiven && field.json(value) === undefined
    ? (field.fault ?? "This is no time")
    : undefined;
}

/** Returns the fields that count: those offered now whose value differs from the default. */
export function changedFields(values: Values): Field[] {
  return FIELDS.filter(
    (field) => values[field.key] !== undefined && (field.when?.(values) ?? true),
  );
}
