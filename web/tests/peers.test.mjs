/** What a host has done over time, on the page of the peers. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { inspect, logIn, openBrowser, openPage } from "./browser.mjs";
import { PASSWORD, pair, sites } from "./site.mjs";

let all;
let hpc;
let browser;

before(async () => {
  [all, browser] = await Promise.all([sites(["lab", "raw"], ["hpc", "scratch"]), openBrowser()]);
  hpc = all.hpc;
  await Promise.all([
    pair(all.lab, hpc),
    hpc.user("anna", "operator"),
    all.lab.data("raw", "run7", 20, 1 << 20),
  ]);
});

after(async () => {
  await browser?.close();
  await all?.close();
});

test("Promise: a host shows its cards over the last hour, and each of its processors", async () => {
  await hpc.penstock("transfer", "submit", "lab:raw/run7", "hpc:scratch/", "--bwlimit", "32Mbit/s");
  const tab = await openPage(browser, hpc, { path: "/peers" });
  const { page } = tab;
  await logIn(page, "anna", PASSWORD);
  const cores = page.getByRole("img", { name: /^Processors: .* busy on average/ });
  await cores.waitFor({ timeout: 60_000 });
  const [peer] = await page.evaluate(() =>
    fetch("/api/v1/statistics")
      .then((reply) => reply.json())
      .then((statistics) => statistics.peers),
  );
  assert.equal(await cores.locator("span").count(), peer.cores.length);
  const names = new Set(peer.series.columns.map((column) => column.name));
  if (names.has("card_in_bits_per_s")) {
    await page.getByRole("heading", { name: "Cards, last hour" }).waitFor({ timeout: 60_000 });
    await page
      .getByRole("img", { name: /: in .*, out .*; at most / })
      .first()
      .waitFor();
  }
  await inspect(tab, "peers-history", () => cores.waitFor());
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});
