import { expect, test } from "vitest";
import type { Schemas } from "../../../api/client";
import { parseRate, parseSize, rateText, sizeText } from "../../../ui/field-text";
import { FIELDS, withValue } from "./fields";
import {
  bodyOf,
  commandOf,
  type Draft,
  draftOf,
  emptyDraft,
  newId,
  obstacleOf,
  pythonOf,
  quoted,
} from "./request";

const SOURCE = { site: "lab", store: "raw", path: "2026" };
const TARGET = { site: "hpc", store: "scratch", path: "" };
const ID = "00112233445566778899aabbccddeeff";

function draft(change: Partial<Draft> = {}, values: Record<string, Draft["values"][""]> = {}) {
  const made = { ...emptyDraft(SOURCE, TARGET), ...change };
  for (const [key, value] of Object.entries(values)) {
    const field = FIELDS.find((one) => one.key === key);
    if (field === undefined) {
      throw new Error(key);
    }
    made.values = withValue(made.values, field, value);
  }
  return made;
}

test("Promise: one chosen item is the source, several are a list, none is the whole directory", () => {
  expect(bodyOf(draft({ chosen: ["run7"] }), ID).source).toEqual({
    ...SOURCE,
    path: "2026/run7",
    slash: false,
  });
  const several = bodyOf(draft({ chosen: ["run7", "a\\xff"] }), ID);
  expect(several.source).toEqual({ ...SOURCE, slash: true });
  expect(several.options?.files_from).toEqual(["run7", "a\\xff"]);
  expect(bodyOf(draft(), ID).options).toEqual({ proof: { receipt: true } });
});

test("Promise: a request says only what differs from the defaults", () => {
  const body = bodyOf(
    draft(
      { label: " run 7 " },
      {
        "options.update.sync": true,
        "options.update.if_exists": "replace",
        "options.update.max_delete": "5",
        "options.select.rules": "- *.tmp\n\n# a note\n+ keep/",
        "options.preserve": ["mode", "times"],
        "options.limits.rate_bits_per_s": "60 MB/s",
        "options.proof.receipt": false,
        priority: "70",
      },
    ),
    ID,
  );
  expect(body.label).toBe("run 7");
  expect(body.priority).toBe(70);
  // `max_delete` says nothing without `delete`.
  expect(body.options?.update).toEqual({ sync: true });
  expect(body.options?.proof).toEqual({ receipt: false });
  expect(body.options?.limits).toEqual({ rate_bits_per_s: 480_000_000 });
  expect(body.options?.preserve).toMatchObject({ owner: false, acls: false });
  expect(body.options?.preserve).not.toHaveProperty("mode");
  expect(body.options?.select?.rules).toEqual([
    { include: false, glob: "*.tmp" },
    { include: true, glob: "keep/" },
  ]);
});

test("Promise: a faulty text is named before anything is sent", () => {
  expect(obstacleOf(draft())).toBeUndefined();
  expect(obstacleOf(emptyDraft())).toBe("Choose a store to read from.");
  const slow = draft({}, { "options.limits.rate_bits_per_s": "10 kbit/s" });
  expect(obstacleOf(slow)).toMatch(/^Rate: A rate of at least/);
  expect(obstacleOf(draft({}, { priority: "101" }))).toMatch(/^Priority/);
});

test("Promise: the command is the same transfer, quoted for a shell", () => {
  const one = draft({ chosen: ["it's"], label: "run 7" }, { "options.update.sync": true });
  expect(commandOf(one)).toBe(
    "penstock transfer submit 'lab:raw/2026/it'\\''s' hpc:scratch --label 'run 7' " +
      "--wait --receipt receipt.json --sync",
  );
  const plain = { "options.proof.receipt": false };
  expect(commandOf(draft({ chosen: ["a", "b c"] }, plain))).toBe(
    "printf '%s\\n' a 'b c' | penstock transfer submit lab:raw/2026/ hpc:scratch --files-from -",
  );
  expect(commandOf(draft({}, { ...plain, "options.select.rules": "- *.tmp\n+ a" }))).toContain(
    "--exclude '*.tmp' --include a",
  );
  expect(quoted("--exclude")).toBe("--exclude");
});

test("Promise: networks go with commas on the command line, and as a list in a program", () => {
  const made = draft({}, { "options.networks": "fast0, fast1", "options.peers_max": "2" });
  expect(commandOf(made)).toContain("--networks fast0,fast1 --max-peers 2");
  expect(pythonOf(made)).toContain('networks=["fast0", "fast1"], peers_max=2');
});

test("Promise: the program is the same transfer", () => {
  const program = pythonOf(
    draft(
      { label: "run 7" },
      { "options.update.sync": true, "deadline.at": "2026-11-26T20:00", priority: "60" },
    ),
  );
  expect(program).toContain("from penstock import Penstock, TransferOptions, UpdateOptions");
  expect(program).toContain("options=TransferOptions(update=UpdateOptions(sync=True)),");
  expect(program).toContain('datetime.fromisoformat("2026-11-26T');
  expect(program).toContain("priority=60,");
  expect(pythonOf(draft())).not.toContain("TransferOptions");
});

test("Promise: a former transfer becomes the same request again", () => {
  const options = {
    digest: "blake3",
    digest_list: true,
    durability: "batch",
    encryption: "tls",
    files_from: [],
    lanes: 4,
    lanes_max: 0,
    limits: { rate_bits_per_s: 8_000_000, metadata_ops_per_s: null },
    networks: ["fast0", "fast1"],
    peers_max: 2,
    piece_bytes: 0,
    preserve: { mode: true, owner: false, strict: true, owner_map: [] },
    proof: { receipt: true, readback: false, also_digests: [] },
    remove_source: false,
    select: { rules: [{ include: false, glob: "*.tmp" }], newer_than: null },
    update: { if_exists: "skip", sync: true, compare: "time", delete: false, max_delete: null },
  };
  const view = {
    id: ID,
    source: { ...SOURCE, path: "2026/run7", slash: false },
    target: { ...TARGET, slash: true },
    label: "run 7",
    options,
  } as unknown as Schemas["TransferView"];
  const again = draftOf(view);
  expect(again.chosen).toEqual(["run7"]);
  expect(again.rest).toEqual({ lanes: 4, preserve: { strict: true, owner_map: [] } });
  const body = bodyOf(again, ID);
  expect(body.source).toEqual({ ...SOURCE, path: "2026/run7", slash: false });
  expect(body.options).toMatchObject({
    lanes: 4,
    digest_list: true,
    limits: { rate_bits_per_s: 8_000_000 },
    networks: ["fast0", "fast1"],
    peers_max: 2,
    preserve: { owner: false, strict: true },
    select: { rules: [{ include: false, glob: "*.tmp" }] },
    update: { if_exists: "skip", sync: true },
  });
});

test("Promise: sizes and rates are read as the command line reads them", () => {
  expect(parseSize("64K")).toBe(65_536);
  expect(parseSize("1.5GiB")).toBe(1_610_612_736);
  expect(parseSize("2GB")).toBe(2_000_000_000);
  expect(parseSize("12")).toBe(12);
  expect(parseSize("many")).toBeUndefined();
  expect(parseRate("500 Mbit/s")).toBe(500_000_000);
  expect(parseRate("60MB/s")).toBe(480_000_000);
  expect(parseRate("10MiB/s")).toBe(83_886_080);
  expect(parseRate("1.5 Gbit")).toBe(1_500_000_000);
  expect(parseRate("800kbps")).toBe(800_000);
  for (const text of ["10", "500M", "60 mb/s", "60Mb/s", "fast", "-1bit", "1,5Gbit/s"]) {
    expect(parseRate(text), text).toBeUndefined();
  }
  for (const rate of [500_000, 8_000_000, 93_100_000_000, 83_886_080]) {
    expect(parseRate(rateText(rate))).toBe(rate);
  }
  for (const bytes of [1, 65_536, 1_000, 3 << 20]) {
    expect(parseSize(sizeText(bytes))).toBe(bytes);
  }
});

test("Promise: an id is 32 hexadecimal digits, and no other's", () => {
  expect(newId()).toMatch(/^[0-9a-f]{32}$/);
  expect(newId()).not.toBe(newId());
});
