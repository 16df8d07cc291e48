/** Many tabs of one browser: each is live, and heals. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { logIn, openBrowser, openPage } from "./browser.mjs";
import { PASSWORD, sites, until } from "./site.mjs";

const TABS = 12;
/** Longest wait for what all of them show: twelve tabs on few cores take their time. */
const WAIT_MS = 60_000;

let all;
let lab;
let browser;

before(async () => {
  [all, browser] = await Promise.all([sites(["lab", "raw", "copy"]), openBrowser()]);
  lab = all.lab;
  await lab.user("anna", "operator");
  await lab.data("raw", "run7", 120, 1 << 20);
});

after(async () => {
  await browser?.close();
  await all?.close();
});

test("Promise: twelve tabs of one browser are live at once, over one connection, and heal", async () => {
  const tab = await openPage(browser, lab);
  await logIn(tab.page, "anna", PASSWORD);
  tab.page.setDefaultTimeout(WAIT_MS);
  const pages = [tab.page];
  while (pages.length < TABS) {
    const page = await tab.context.newPage();
    page.setDefaultTimeout(WAIT_MS);
    page.on("pageerror", (error) => tab.faults.push(`error: ${error.message}`));
    await page.goto("/");
    pages.push(page);
  }
  const live = (page) => page.getByText("live", { exact: true }).waitFor();
  await Promise.all(pages.map(live));
  // A stream of events holds a connection of HTTP/1.1, of which browsers have six to a host.
  const protocols = await Promise.all(
    pages.map((page) =>
      page.evaluate(
        () =>
          performance
            .getEntriesByType("resource")
            .find((entry) => entry.name.endsWith("/api/v1/me"))?.nextHopProtocol,
      ),
    ),
  );
  assert.deepEqual([...new Set(protocols)], ["h2"]);

  const words = ["--label", "run 7", "--bwlimit", "8Mbit/s"];
  await lab.penstock("transfer", "submit", "lab:raw/run7", "lab:copy/", ...words);
  const bar = (page) => page.getByRole("progressbar", { name: "Progress of run 7" });
  await Promise.all(pages.map((page) => bar(page).waitFor()));
  // The figures of each tab move: those of the last one are not kept up by the others.
  const before = await Promise.all(pages.map((page) => bar(page).getAttribute("aria-valuenow")));
  await Promise.all(
    pages.map((page, index) =>
      until(
        `tab ${index + 1} moves`,
        async () => (await bar(page).getAttribute("aria-valuenow")) !== before[index],
        WAIT_MS,
      ),
    ),
  );

  tab.expectLoss();
  await lab.kill();
  await Promise.all(pages.map((page) => page.getByText(/^No contact with/).waitFor()));
  await lab.start();
  await Promise.all(pages.map(live));
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});
