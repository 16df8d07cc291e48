/** The page in parts: what is loaded at first, what comes later, and what if it is not there. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { inspect, logIn, openBrowser, openPage } from "./browser.mjs";
import { PASSWORD, sites, until } from "./site.mjs";

let all;
let lab;
let browser;

before(async () => {
  [all, browser] = await Promise.all([sites(["lab", "raw"]), openBrowser()]);
  lab = all.lab;
  await lab.user("anna", "administrator");
});

after(async () => {
  await browser?.close();
  await all?.close();
});

const heading = (page, name) => page.getByRole("heading", { level: 1, name });
const entry = (page, name) => page.getByRole("link", { name, exact: true }).first();

/** Names of the scripts that a page has loaded so far. */
const scripts = (page) =>
  page.evaluate(() =>
    performance
      .getEntriesByType("resource")
      .map((one) => /assets\/(.+)-[\w-]{8}\.js$/.exec(one.name)?.[1])
      .filter((name) => name !== undefined),
  );

test("Promise: a log-in loads no page, and the pages come while the browser is idle", async () => {
  const tab = await openPage(browser, lab);
  const { page } = tab;
  await page.getByRole("button", { name: "Log in" }).waitFor();
  const first = await scripts(page);
  assert.ok(first.includes("vendor"), `${first}`);
  assert.deepEqual(
    first.filter((name) => name.endsWith("Page")),
    [],
  );
  await logIn(page, "anna", PASSWORD);
  await heading(page, "Overview").waitFor();
  await until("all pages", async () => (await scripts(page)).includes("AboutPage"));
  // What was fetched ahead is there without the daemon.
  tab.expectLoss();
  await lab.kill();
  await entry(page, "About").click();
  await heading(page, "About").waitFor();
  await entry(page, "Settings").click();
  await heading(page, "Settings").waitFor();
  await lab.start();
  await page.getByText("live", { exact: true }).waitFor();
  await page.getByText("penstock.toml", { exact: false }).first().waitFor();
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});

test("Promise: a page of another release says so, and is there when it is loaded again", async () => {
  const tab = await openPage(browser, lab);
  const { page } = tab;
  tab.expectLoss();
  await page.route("**/assets/*Page-*.js", (route) =>
    /OverviewPage/.test(route.request().url()) ? route.continue() : route.fulfill({ status: 404 }),
  );
  await logIn(page, "anna", PASSWORD);
  await heading(page, "Overview").waitFor();
  await entry(page, "About").click();
  await inspect(tab, "part-gone", () => page.getByText("Penstock may have been updated").waitFor());
  // The frame stays, and the other pages with it.
  await entry(page, "Overview").click();
  await heading(page, "Overview").waitFor();
  await entry(page, "About").click();
  await page.unroute("**/assets/*Page-*.js");
  await page.getByRole("button", { name: "Load again" }).click();
  await heading(page, "About").waitFor();
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});

test("Promise: a page that was not fetched before the daemon went is there when it is back", async () => {
  const tab = await openPage(browser, lab);
  const { page } = tab;
  tab.expectLoss();
  const parts = "**/assets/*Page-*.js";
  await page.route(parts, (route) =>
    /OverviewPage/.test(route.request().url()) ? route.continue() : route.abort(),
  );
  await logIn(page, "anna", PASSWORD);
  await heading(page, "Overview").waitFor();
  await lab.kill();
  await page.getByText("no contact", { exact: true }).waitFor();
  await entry(page, "About").click();
  await page.getByText("loaded again by itself").waitFor();
  await page.unroute(parts);
  await lab.start();
  await heading(page, "About").waitFor();
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});
