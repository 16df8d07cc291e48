/** The page below a path of a proxy. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { logIn, openBrowser, openPage } from "./browser.mjs";
import { startProxy } from "./proxy.mjs";
import { PASSWORD, sites } from "./site.mjs";

let all;
let proxy;
let browser;

before(async () => {
  [all, browser] = await Promise.all([sites(["lab", "raw"]), openBrowser()]);
  await all.lab.user("anna", "administrator");
  proxy = await startProxy(all.lab, { below: "/penstock" });
});

after(async () => {
  await browser?.close();
  await proxy?.close();
  await all?.close();
});

test("Promise: a proxy serves the page below a path, and nothing leaves that path", async () => {
  const tab = await openPage(browser, proxy, { path: "/penstock/" });
  const { page } = tab;
  const outside = [];
  page.on("request", (request) => {
    if (!new URL(request.url()).pathname.startsWith("/penstock/")) {
      outside.push(request.url());
    }
  });
  await logIn(page, "anna", PASSWORD);
  await page.waitForURL(`${proxy.url}/penstock/`);
  await page.getByText("live", { exact: true }).waitFor();
  await page.getByRole("link", { name: "Stores", exact: true }).first().click();
  await page.getByRole("link", { name: "raw" }).first().click();
  await page.waitForURL("**/penstock/stores/lab/raw");
  // An address far down works when it is opened by itself, and by a log-in.
  await page.reload();
  await page.getByText("This directory is empty").waitFor();
  await page.getByRole("link", { name: "About" }).first().click();
  await page.getByText("uplot").waitFor();
  await page.evaluate(() => fetch("api/v1/sessions/current", { method: "DELETE" }));
  await page.goto("/penstock/stores/lab/raw");
  await page.waitForURL("**/penstock/login?next=%2Fstores%2Flab%2Fraw");
  await logIn(page, "anna", PASSWORD);
  await page.waitForURL("**/penstock/stores/lab/raw");
  await page.getByRole("button", { name: "User anna" }).click();
  await page.getByRole("menuitem", { name: "Log out" }).click();
  await page.waitForURL("**/penstock/login?out=1");
  assert.deepEqual(outside, []);
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});
