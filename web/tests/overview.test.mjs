/** The overview of a site that moves data, has lost some, and goes away under the page. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  checkAccess,
  inspect,
  logIn,
  openBrowser,
  openPage,
  PICTURES,
  picture,
} from "./browser.mjs";
import { PASSWORD, pair, sites, until } from "./site.mjs";

/** For pictures transfers run longer, so that there is a history to be seen. */
const FILES = PICTURES ? 240 : 40;
const HISTORY_MS = PICTURES ? 60_000 : 0;

let all;
let lab;
let hpc;
let browser;

before(async () => {
  [all, browser] = await Promise.all([sites(["lab", "raw"], ["hpc", "scratch"]), openBrowser()]);
  ({ lab, hpc } = all);
  await pair(lab, hpc);
  await Promise.all([
    hpc.user("anna", "operator"),
    lab.data("raw", "run7", FILES, 1 << 20),
    lab.data("raw", "run8", FILES, 1 << 20),
    lab.data("raw", "run9", 4, 1 << 16),
  ]);
});

after(async () => {
  await browser?.close();
  await all?.close();
});

const submit = (...words) => hpc.penstock("transfer", "submit", ...words);

test("Promise: the overview tells what fails, what moves, and what waits and why", async () => {
  await submit("lab:raw/none", "hpc:scratch/none/", "--label", "calibration").catch(() => {});
  await submit("lab:raw/run7", "hpc:scratch/", "--label", "run 7", "--bwlimit", "12Mbit/s");
  await submit("lab:raw/run8", "hpc:scratch/b/", "--label", "run 8", "--bwlimit", "8Mbit/s");
  const last = await submit(
    "lab:raw/run9",
    "hpc:scratch/c/",
    "--label",
    "run 9",
    "--bwlimit",
    "500kbit/s",
  );
  await hpc.penstock("transfer", "pause", last.split("\n").at(-1));
  const tab = await openPage(browser, hpc);
  const { page } = tab;
  await logIn(page, "anna", PASSWORD);
  const running = page.getByRole("progressbar", { name: "Progress of run 7" });
  await running.waitFor();
  await page.getByText("run 9").waitFor();
  await page.getByText("live", { exact: true }).waitFor();
  // The figures are of the stream: they move without a request of the list.
  const share = await running.getAttribute("aria-valuenow");
  await until("progress", async () => (await running.getAttribute("aria-valuenow")) !== share);
  await new Promise((resolve) => setTimeout(resolve, HISTORY_MS));
  await inspect(tab, "overview", () => running.waitFor());
  await page.getByRole("button", { name: "As table" }).click();
  await page.getByRole("table").waitFor();
  await checkAccess(page, "rates as a table");
  await page.getByRole("button", { name: "As chart" }).click();

  // A daemon that is killed under the page: it says so, and heals by itself.
  tab.expectLoss();
  await hpc.kill();
  const banner = page.getByText(/^No contact with/);
  await banner.waitFor();
  await checkAccess(page, "no contact");
  await picture(page, "no-contact");
  await hpc.start();
  const back = Date.now();
  await page.getByText("live", { exact: true }).waitFor();
  await banner.waitFor({ state: "hidden" });
  const seconds = (Date.now() - back) / 1_000;
  console.log(`the page has healed within ${seconds.toFixed(1)} s`);
  assert.equal(await page.getByRole("alert").count(), 0, "a dialog or box of an error is left");
  assert.equal(await page.getByRole("dialog").count(), 0);
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});

test("Promise: search and menu work by the keyboard alone", async () => {
  const tab = await openPage(browser, hpc);
  const { page } = tab;
  await logIn(page, "anna", PASSWORD);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Search" }).fill("about");
  await checkAccess(page, "search");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "About" }).waitFor();
  // A reader of screens begins at the new page.
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), "H1");
  await page.goBack();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});
