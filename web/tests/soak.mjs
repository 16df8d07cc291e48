/**
 * A page that is open for hours: its heap stays bounded. It is no part of the gate:
 *
 *     node tests/soak.mjs [MINUTES]
 *
 * Data moves the whole time, and each page is opened again and again. Every minute it prints the
 * heap of the tab after a collection; it fails if the heap has grown by more than 20 MB since the
 * first round through all pages.
 */

import { logIn, openBrowser, openPage } from "./browser.mjs";
import { PASSWORD, sites } from "./site.mjs";

const minutes = Number(process.argv[2] ?? 480);
const GROWTH_MAX = 20e6;
/** Time for which each page is looked at, in milliseconds. */
const LOOK_MS = 4_000;
const PAGES = [
  ...["Overview", "Transfers", "New", "Stores", "Sites", "Peers", "Queue", "Events"],
  ...["Users", "Webhooks", "Audit", "Settings", "About"],
];

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function heapOf(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  const { nodes } = await session.send("Memory.getDOMCounters");
  await session.detach();
  return { bytes: usedSize, nodes };
}

/** Keeps transfers running, one after the other, until the soak ends. */
async function keepMoving(lab, isOver) {
  for (let turn = 0; !isOver(); turn += 1) {
    const words = ["--label", `run ${turn}`, "--bwlimit", "16Mbit/s", "--wait", "--no-progress"];
    const target = `lab:copy/turn-${turn % 8}-${turn}/`;
    await lab.penstock("transfer", "submit", "lab:raw/run7", target, ...words).catch(() => {});
  }
}

async function visit(page, name) {
  await page.getByRole("link", { name, exact: true }).first().click();
  await page.getByRole("heading", { level: 1 }).waitFor();
  if (name === "Transfers") {
    await page.getByRole("link", { name: /^run / }).first().click();
    await page.getByRole("tab", { name: "Progress" }).waitFor();
  }
  await wait(LOOK_MS);
}

const all = await sites(["lab", "raw", "copy"]);
const browser = await openBrowser();
let over = false;
try {
  const { lab } = all;
  await lab.user("anna", "administrator");
  await lab.data("raw", "run7", 40, 1 << 20);
  const moving = keepMoving(lab, () => over);
  const { page, faults } = await openPage(browser, lab);
  await logIn(page, "anna", PASSWORD);
  const begun = Date.now();
  const end = begun + minutes * 60_000;
  let first = null;
  let last = null;
  while (first === null || Date.now() < end) {
    for (const name of PAGES) {
      await visit(page, name);
    }
    last = await heapOf(page);
    first ??= last;
    const minute = ((Date.now() - begun) / 60_000).toFixed(1);
    console.log(`${minute} min: ${(last.bytes / 1e6).toFixed(1)} MB, ${last.nodes} nodes`);
  }
  over = true;
  await moving;
  const growth = last.bytes - first.bytes;
  console.log(`grown by ${(growth / 1e6).toFixed(1)} MB in ${minutes} min`);
  if (growth > GROWTH_MAX || faults.length > 0) {
    console.error(`too much, or faults: ${faults.join("; ")}`);
    process.exitCode = 1;
  }
} finally {
  over = true;
  await browser.close();
  await all.close();
}
