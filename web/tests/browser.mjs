/** Debian's Chromium, and what every page has to pass in it. */

import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { chromium } from "playwright-core";

const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
/** Looks of axe at a page that is on the way to its next state. */
const LOOKS = 5;

/** Where pictures go, if they are wanted: `PENSTOCK_WEB_PICTURES`. */
export const PICTURES = process.env.PENSTOCK_WEB_PICTURES;

export const WIDE = { width: 1280, height: 800 };
export const NARROW = { width: 390, height: 844 };

/** Messages of the console that are no fault of the page: it reads 401 before it logs in. */
const EXPECTED = [/Failed to load resource: the server responded with a status of (401|503)/];
/** Messages while a daemon is away, beside them. */
const WHILE_AWAY = [/net::ERR_/, /Failed to load resource/];

export async function openBrowser() {
  // Root, as in a container, has no sandbox of Chromium.
  const args = ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"];
  return chromium.launch({ executablePath: CHROMIUM, args });
}

/**
 * Opens a page of a site. `faults` collects what the console says and requests to other hosts;
 * `check` fails on them.
 */
export async function openPage(browser, site, options = {}) {
  const { size = WIDE, dark = false, path: to = "/" } = options;
  const context = await browser.newContext({
    baseURL: site.url,
    viewport: size,
    ignoreHTTPSErrors: true,
    colorScheme: dark ? "dark" : "light",
    reducedMotion: "reduce",
    locale: "en-GB",
    timezoneId: "UTC",
  });
  const faults = [];
  const allowed = [...EXPECTED];
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  page.on("console", (message) => {
    const text = message.text();
    if (["error", "warning"].includes(message.type()) && !allowed.some((one) => one.test(text))) {
      faults.push(`${message.type()}: ${text}`);
    }
  });
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.origin !== site.url && url.protocol !== "blob:" && url.protocol !== "data:") {
      faults.push(`request to ${request.url()}`);
    }
  });
  await page.goto(to);
  return { page, context, faults, expectLoss: () => allowed.push(...WHILE_AWAY) };
}

/** Logs in by the page. */
export async function logIn(page, name, password) {
  await page.getByLabel("Name").fill(name);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("button", { name: `User ${name}` }).waitFor();
}

/** Changes the colours by the attribute that the page's own switch sets. */
export async function setDark(page, dark) {
  await page.emulateMedia({ colorScheme: dark ? "dark" : "light" });
  const scheme = dark ? "dark" : "light";
  await page.locator(`html[data-mantine-color-scheme="${scheme}"]`).waitFor();
  // The colours of all elements are those of the next frame.
  await page.evaluate(
    () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))),
  );
}

/** Fails if axe finds a fault of the page that is still there when a window has opened or closed. */
export async function checkAccess(page, where) {
  if (!(await page.evaluate(() => "axe" in window))) {
    await page.evaluate(await readFile(axe, "utf8"));
  }
  let found = await faultsOf(page);
  for (let look = 0; found.length > 0 && look < LOOKS; look += 1) {
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(done)));
    found = await faultsOf(page);
  }
  assert.deepEqual(found, [], `axe at ${where}`);
}

/**
 * Asks axe about a page from its top: a row that is half below the sticky bar is there in full after
 * one more turn of the wheel, but axe takes it for a target that is too small.
 */
function faultsOf(page) {
  return page.evaluate(async () => {
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const { scrollY } = window;
    window.scrollTo({ top: 0, behavior: "instant" });
    const result = await window.axe.run(document, { runOnly: { type: "tag", values: tags } });
    window.scrollTo({ top: scrollY, behavior: "instant" });
    return result.violations.map((one) => ({
      rule: one.id,
      nodes: one.nodes
        .slice(0, 3)
        .map((node) => `${node.html.slice(0, 160)} ${node.failureSummary}`),
    }));
  });
}

/** Takes a picture, if pictures are wanted. */
export async function picture(page, name) {
  if (PICTURES) {
    await mkdir(PICTURES, { recursive: true });
    await page.screenshot({ path: path.join(PICTURES, `${name}.png`), animations: "disabled" });
  }
}

/**
 * Looks at a page in both colours and both sizes: axe is content, nothing is wider than the screen,
 * and there is a picture of each. `ready` waits until the page shows what it is about.
 */
export async function inspect({ page, faults }, name, ready = async () => {}) {
  for (const [label, size] of [
    ["wide", WIDE],
    ["narrow", NARROW],
  ]) {
    await page.setViewportSize(size);
    for (const dark of [false, true]) {
      const where = `${name}-${label}-${dark ? "dark" : "light"}`;
      await setDark(page, dark);
      await ready();
      await checkAccess(page, where);
      const wider = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.ok(wider <= 0, `${where} is ${wider} pixels wider than the screen`);
      await picture(page, where);
      assert.deepEqual(faults, [], where);
    }
  }
  await page.setViewportSize(WIDE);
  await setDark(page, false);
}
