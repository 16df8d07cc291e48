/** Lists of a million rows: few of them are in the page, and all can be found. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { logIn, openBrowser, openPage } from "./browser.mjs";
import { startProxy } from "./proxy.mjs";
import { PASSWORD, sites, until } from "./site.mjs";

const TOTAL = 1_000_000;
/** Most bytes that the scripts of a tab hold with such a list. */
const HEAP_MAX = 64 << 20;

let all;
let lab;
let browser;
let proxy;
/** Recorded answers by the begin of their paths. */
const answers = new Map();

before(async () => {
  [all, browser] = await Promise.all([sites(["lab", "raw", "copy"]), openBrowser()]);
  lab = all.lab;
  await lab.user("anna", "operator");
  const answer = (path, response) => {
    const found = [...answers].find(([begin]) => path === begin || path.startsWith(`${begin}?`));
    found?.[1](response, new URLSearchParams(path.split("?")[1]));
    return found !== undefined;
  };
  proxy = await startProxy(lab, { answer });
});

after(async () => {
  await browser?.close();
  await proxy?.close();
  await all?.close();
});

const json = (response, body) =>
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));

const nameOf = (index) => `frame-${String(index).padStart(7, "0")}.dat`;

/** Fails if the document or the heap has grown with the list. */
async function checkBounds(page) {
  assert.ok((await page.getByRole("row").count()) <= 200);
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  console.log(`the heap has ${Math.round(usedSize / (1 << 20))} MiB`);
  assert.ok(usedSize <= HEAP_MAX, `${usedSize} bytes`);
}

const toEnd = (page) => page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));

test("Promise: a directory of a million entries is windowed, bounded, and searched", async () => {
  answers.set("/api/v1/stores/raw/entries", (response, query) => {
    const prefix = query.get("prefix") ?? "";
    const limit = Number(query.get("limit"));
    const digits = prefix.replace("frame-", "");
    // The names that begin so are a stretch of the order.
    const width = 10 ** (7 - digits.length);
    const low = Number(digits || 0) * width;
    const begin = Math.max(low, Number(query.get("cursor") ?? 0));
    const end = Math.min(TOTAL, low + width);
    const count = Math.max(0, Math.min(limit, end - begin));
    const items = Array.from({ length: count }, (_, index) => ({
      name: nameOf(begin + index),
      kind: "file",
      bytes: begin + index,
      mode: "0644",
      mtime: "2026-11-26T07:08:09.000Z",
    }));
    const next = begin + limit < end ? String(begin + limit) : undefined;
    json(response, { items, next, sorted: true });
  });
  const tab = await openPage(browser, proxy, { path: "/stores/lab/raw" });
  const { page } = tab;
  await logIn(page, "anna", PASSWORD);
  await page.getByText("1,000 entries so far").waitFor();
  const bound = page.getByText("The first 100,000 entries", { exact: false });
  await until(
    "the bound of the list",
    async () => {
      await toEnd(page);
      return (await bound.count()) > 0;
    },
    120_000,
  );
  await toEnd(page);
  await page.getByText(nameOf(99_999), { exact: true }).waitFor();
  await checkBounds(page);
  await page.getByLabel("Names that begin with").fill("frame-0999999");
  await page.getByText(nameOf(999_999), { exact: true }).waitFor();
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});

test("Promise: a million failed items are counted, and as many kept as one reads", async () => {
  const printed = await lab
    .penstock("transfer", "submit", "lab:raw/none", "lab:copy/none/", "--label", "calibration")
    .catch(() => "");
  const tab = await openPage(browser, proxy, { path: "/transfers" });
  const { page } = tab;
  await logIn(page, "anna", PASSWORD);
  await page.getByRole("link", { name: "calibration" }).waitFor();
  const href = await page.getByRole("link", { name: "calibration" }).getAttribute("href");
  const view = await until("the end of it", async () => {
    const found = await page.evaluate(async (path) => (await fetch(`/api/v1${path}`)).json(), href);
    return found.state === "failed" && found;
  });
  const first = { path: nameOf(0), code: "denied", message: "permission denied" };
  const failures = { count: TOTAL, first: [first] };
  answers.set(`/api/v1/transfers/${view.id}`, (response) => json(response, { ...view, failures }));
  answers.set(`/api/v1/transfers/${view.id}/failures`, async (response) => {
    response.writeHead(200, { "content-type": "application/jsonl" });
    const part = 10_000;
    for (let begin = 0; begin < TOTAL && !response.destroyed; begin += part) {
      const lines = Array.from({ length: part }, (_, index) =>
        JSON.stringify({ ...first, path: `2026/run7/${nameOf(begin + index)}` }),
      );
      if (!response.write(`${lines.join("\n")}\n`)) {
        await new Promise((resolve) => response.once("drain", resolve));
      }
    }
    response.end();
  });
  await page.goto(`${href}?tab=failures`);
  await page.getByText("1,000,000 items", { exact: true }).waitFor({ timeout: 120_000 });
  await page.getByRole("button", { name: "Show 19,990 more" }).click();
  await page.getByText("980,000 more are in the list to download").waitFor();
  await toEnd(page);
  await page.getByText(nameOf(19_999)).first().waitFor();
  await checkBounds(page);
  assert.deepEqual(tab.faults, [], printed);
  await tab.context.close();
});
