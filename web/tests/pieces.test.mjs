/** The piece map of a transfer, and pauses that end by themselves, with real data. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { inspect, logIn, openBrowser, openPage, picture } from "./browser.mjs";
import { Clicks } from "./clicks.mjs";
import { PASSWORD, pair, sites, until } from "./site.mjs";

let all;
let lab;
let hpc;
let browser;

before(async () => {
  [all, browser] = await Promise.all([sites(["lab", "raw"], ["hpc", "scratch"]), openBrowser()]);
  ({ lab, hpc } = all);
  await Promise.all([
    pair(lab, hpc),
    hpc.user("anna", "operator"),
    lab.data("raw", "many", 60, 1 << 20),
    lab.data("raw", "few", 4, 3 << 20),
  ]);
});

after(async () => {
  await browser?.close();
  await all?.close();
});

async function begin(from, label, ...words) {
  const asked = [`lab:raw/${from}`, `hpc:scratch/${label}/`, "--label", label];
  const printed = await hpc.penstock("transfer", "submit", ...asked, ...words);
  return printed.split("\n").at(-1).trim();
}

async function opened(id) {
  const tab = await openPage(browser, hpc, { path: `/transfers/${id}` });
  await logIn(tab.page, "anna", PASSWORD);
  return tab;
}

const bar = (page) => page.getByRole("img", { name: /^Pieces\. / });
const mapOf = (page, id) =>
  page.evaluate((id) => fetch(`/api/v1/transfers/${id}/pieces`).then((it) => it.json()), id);

test("Promise: a transfer that runs is seen in pieces, small files as one bar, few files each", async () => {
  const id = await begin("many", "frames", "--bwlimit", "16Mbit/s");
  const tab = await opened(id);
  const { page } = tab;
  await bar(page).waitFor();
  const legend = page.locator("ul").filter({ hasText: "In the hands of a peer" });
  await legend.waitFor();
  await until("some that is done", async () =>
    /Done: [1-9]/.test(await bar(page).getAttribute("aria-label")),
  );
  assert.equal(await bar(page).locator("span").count(), 128);
  const map = await mapOf(page, id);
  assert.deepEqual([map.basis, map.bytes, map.listed], ["ledger", 60 << 20, true]);
  assert.ok(JSON.stringify(map).length <= 16 * 1024);
  const sum = (column) => column.reduce((total, bytes) => total + bytes, 0);
  const { failures, ...columns } = map.buckets;
  const total = Object.values(columns).reduce((all, column) => all + sum(column), 0);
  assert.deepEqual([total, sum(failures)], [60 << 20, 0]);
  await page.getByText("As a table").click();
  assert.equal(
    await page
      .getByRole("row")
      .filter({ hasText: /\d to \d+ %/ })
      .count(),
    16,
  );
  await inspect(tab, "transfer-pieces", () => bar(page).waitFor());
  for (const width of [2560, 720]) {
    await page.setViewportSize({ width, height: 1200 });
    await picture(page, `transfer-pieces-${width}`);
  }
  await hpc.penstock("transfer", "limit", id, "--bwlimit", "none");
  await page.getByText("as its last attempt ended").or(page.getByText("by its totals")).waitFor();
  await until("all that is done", async () => {
    const { totals } = await mapOf(page, id);
    return totals.done === 60 << 20;
  });
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});

test("Promise: few files have a bar each, and one that fails says so, also after the end", async () => {
  await hpc.data("scratch/parts/few/frame-0002.dat", "in-the-way", 1, 10);
  const id = await begin("few", "parts", "--bwlimit", "16Mbit/s", "--if-exists", "fail");
  const tab = await opened(id);
  const { page } = tab;
  const files = page.getByRole("list", { name: "Files" });
  await files.waitFor();
  await page.getByText("as its last attempt ended").waitFor({ timeout: 60_000 });
  await files.getByText("failed").waitFor();
  const map = await mapOf(page, id);
  assert.deepEqual([map.basis, map.files.length, map.failures], ["end", 4, 1]);
  assert.deepEqual([map.totals.failed, map.totals.left], [3 << 20, 0]);
  const [failed] = map.files.filter((file) => file.failed);
  assert.match(failed.path, /frame-0002\.dat$/);
  await inspect(tab, "transfer-pieces-files", () => files.waitFor());
  // A restart of the daemon keeps the map.
  await hpc.kill();
  await hpc.start();
  await page.reload();
  await files.getByText("failed").waitFor();
  await tab.context.close();
});

test("Promise: a transfer is paused until a time in three clicks, and resumes by itself", async () => {
  const id = await begin("many", "later", "--bwlimit", "8Mbit/s");
  const tab = await opened(id);
  const { page } = tab;
  await bar(page).waitFor();
  const clicks = new Clicks(page);
  await clicks.on(page.getByRole("button", { name: "Actions of later" }));
  await clicks.on(page.getByRole("menuitem", { name: "Pause until…" }));
  await page.getByRole("dialog", { name: "Pause later until" }).waitFor();
  await inspect(tab, "transfer-pause-until");
  await clicks.on(page.getByRole("button", { name: "1 hour" }));
  clicks.atMost(3, "pause for the meeting");
  await page.getByText("it resumes by itself").waitFor();
  await page.getByText("The wait ends").waitFor();
  const shown = () => hpc.list("transfer", "show", id).then(([view]) => view);
  const paused = await shown();
  const left = Date.parse(paused.waiting.until) - Date.now();
  assert.ok(left > 3_500_000 && left <= 3_600_000, `${left}`);
  await hpc.penstock("transfer", "pause", id, "--until", "2s");
  await until("its end", async () => (await shown()).state === "running");
  await page.getByText("Runs, at the limit").waitFor();
  await hpc.penstock("transfer", "cancel", id);
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});
