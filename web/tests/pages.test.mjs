/** The pages of the site and its administration: two real sites that pair, and move data. */

import assert from "node:assert/strict";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { request } from "node:https";
import path from "node:path";
import { after, before, test } from "node:test";
import {
  checkAccess,
  inspect,
  logIn,
  NARROW,
  openBrowser,
  openPage,
  picture,
  setDark,
  WIDE,
} from "./browser.mjs";
import { PASSWORD, sites, until } from "./site.mjs";

let all;
let lab;
let hpc;
let browser;
/** Tabs of the administrators of both sites. */
let atLab;
let atHpc;

before(async () => {
  [all, browser] = await Promise.all([sites(["lab", "raw"], ["hpc", "scratch"]), openBrowser()]);
  ({ lab, hpc } = all);
  await Promise.all([
    lab.user("anna", "administrator"),
    hpc.user("ben", "administrator"),
    hpc.user("vic", "viewer", "scratch=read"),
    lab.data("raw", "run7", 6, 1 << 18),
    lab.data("raw", "run8", 40, 1 << 20),
  ]);
  const raw = path.join(lab.stores, "raw");
  await mkdir(path.join(raw, "frames"));
  const names = Array.from({ length: 2_500 }, (_, index) => `f-${String(index).padStart(5, "0")}`);
  await Promise.all(names.map((name) => writeFile(path.join(raw, "frames", name), "")));
  await symlink("run7", path.join(raw, "latest"));
  await writeFile(Buffer.concat([Buffer.from(`${raw}/odd-`), Buffer.from([0xff])]), "x");
  await writeFile(path.join(raw, "README.txt"), "Frames of the detector.\n");
});

after(async () => {
  await browser?.close();
  await all?.close();
});

let broken = null;

/** A test of the sequence: each begins where the one before has ended. */
function step(promise, body) {
  test(promise, async () => {
    assert.equal(broken, null, "an earlier step has failed");
    broken = promise;
    await body();
    broken = null;
  });
}

/** Looks at a dialog: wide and light, narrow and dark. */
async function glance({ page, faults }, name) {
  await checkAccess(page, name);
  await picture(page, `${name}-wide-light`);
  await page.setViewportSize(NARROW);
  await setDark(page, true);
  await checkAccess(page, `${name}, narrow`);
  await picture(page, `${name}-narrow-dark`);
  await page.setViewportSize(WIDE);
  await setDark(page, false);
  assert.deepEqual(faults, [], name);
}

/** Opens a site as one of its users. */
async function enter(site, name, to = "/") {
  const tab = await openPage(browser, site, { path: to });
  await tab.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await logIn(tab.page, name, PASSWORD);
  return tab;
}

/** Counts the clicks of a flow. */
function counter() {
  const counted = {
    clicks: 0,
    click: async (locator) => {
      counted.clicks += 1;
      await locator.click();
    },
  };
  return counted;
}

/** Opens a page by the menu. */
function entry(page, name) {
  return page
    .getByRole("navigation", { name: "Pages" })
    .first()
    .getByRole("link", { name, exact: true });
}

const button = (page, name) => page.getByRole("button", { name, exact: true });

/** Opens a page by its address, without loading the program of the page anew. */
async function go(page, to) {
  await page.evaluate((address) => {
    window.history.pushState(null, "", address);
  }, to);
}

step("Promise: two sites pair by a code, in three clicks and four, and compare words", async () => {
  [atLab, atHpc] = await Promise.all([enter(lab, "anna"), enter(hpc, "ben")]);
  const here = counter();
  await here.click(entry(atLab.page, "Sites"));
  await here.click(button(atLab.page, "Pair"));
  await here.click(atLab.page.getByText("Give a code"));
  const copy = button(atLab.page, "Copy the code");
  await copy.waitFor();
  assert.ok(here.clicks <= 3);
  const code = await atLab.page.getByRole("dialog").locator("code").first().textContent();
  const words = (dialog) => dialog.getByRole("list", { name: /in words/ }).textContent();
  const said = await words(atLab.page.getByRole("dialog"));
  await copy.waitFor();
  await glance(atLab, "pair-give");

  const there = counter();
  await there.click(entry(atHpc.page, "Sites"));
  await there.click(button(atHpc.page, "Pair"));
  await there.click(atHpc.page.getByText("Enter a code"));
  await atHpc.page.getByLabel("Code of the other site").fill(code.slice(0, -8));
  await atHpc.page.getByText(/not a whole code/).waitFor();
  await atHpc.page.getByLabel("Code of the other site").fill(code);
  const same = button(atHpc.page, "They are the same: pair");
  assert.equal(await words(atHpc.page.getByRole("dialog")), said);
  await same.waitFor();
  await glance(atHpc, "pair-enter");
  await there.click(same);
  await atHpc.page.getByText("Paired with lab").waitFor();
  assert.ok(there.clicks <= 4);
  // The site that gave the code sees it by itself, and shows the words of the other one.
  await atLab.page.getByText("Paired with hpc").waitFor();
  await button(atLab.page, "They are the same").waitFor();
  await glance(atLab, "paired");
  await button(atLab.page, "They are the same").click();
  await atHpc.page.getByRole("link", { name: "Open lab" }).click();
  await atHpc.page.getByRole("heading", { level: 1, name: "lab" }).waitFor();
  await atHpc.page.getByRole("table", { name: "Paths from lab" }).waitFor();
  await inspect(atHpc, "site", () => atHpc.page.getByText("Certificate ends").first().waitFor());
  await entry(atHpc.page, "Sites").click();
  await inspect(atHpc, "sites", () => atHpc.page.getByRole("link", { name: "lab" }).waitFor());
});

step("Promise: stores show state and rights, and a selection becomes a transfer", async () => {
  await hpc.penstock("site", "grant", "lab", "--write", "scratch");
  const { page } = atLab;
  await entry(page, "Stores").click();
  const browse = page.getByRole("link", { name: "Browse raw" });
  await inspect(atLab, "stores", async () => {
    await browse.waitFor();
    await page.getByRole("table", { name: "Stores of hpc" }).waitFor();
  });
  await browse.click();
  await page.getByText("odd-\\xff").waitFor();
  await page.getByText("→ run7").waitFor();
  await button(page, "New directory").click();
  await page.getByLabel("Name", { exact: true }).fill("run9");
  await button(page, "Make directory").click();
  await page.getByText("This directory is empty").waitFor();
  await page.getByRole("navigation", { name: "Path" }).getByRole("link", { name: "raw" }).click();
  await page.getByLabel("Choose run7").check();
  await page.getByLabel("Choose README.txt").check();
  await page.getByText("1 directory · 1 file · 24 B").waitFor();
  await inspect(atLab, "browser", () => page.getByText("1 directory · 1 file").waitFor());
  // The arrows move from row to row, as in a file manager.
  await page.getByLabel("Choose frames").focus();
  await page.keyboard.press("ArrowDown");
  assert.equal(
    await page.evaluate(() => document.activeElement?.getAttribute("aria-label")),
    "Choose latest",
  );
});

step("Promise: a wide directory is in the document only as far as it is in view", async () => {
  const { page } = atLab;
  await page.getByRole("link", { name: "frames", exact: true }).click();
  await page.getByText("1,000 entries so far").waitFor();
  const rows = page.getByRole("table").locator("tbody tr");
  assert.ok((await rows.count()) < 200);
  await until("all entries", async () => {
    await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
    return page.getByText("2,500 entries", { exact: true }).isVisible();
  });
  assert.ok((await rows.count()) < 200);
  await page.getByLabel("Names that begin with").fill("f-0249");
  await page.getByText("10 entries", { exact: true }).waitFor();
  await page.getByLabel("Names that begin with").fill("none");
  await page.getByText("No name begins with “none”").waitFor();
  assert.deepEqual(atLab.faults, []);
});

/** Returns the status of a request with a token. */
function statusOf(site, token) {
  const headers = { authorization: `Bearer ${token}` };
  return new Promise((resolve, reject) => {
    const options = { headers, rejectUnauthorized: false };
    request(`${site.url}/api/v1/me`, options, (answer) => resolve(answer.resume().statusCode))
      .on("error", reject)
      .end();
  });
}

step(
  "Promise: a token for a script takes five clicks, and is refused once it is revoked",
  async () => {
    const { page } = atHpc;
    await entry(page, "Overview").click();
    const flow = counter();
    await flow.click(button(page, "User ben"));
    await flow.click(page.getByRole("menuitem", { name: "Tokens and sessions" }));
    await flow.click(button(page, "New token"));
    await page.getByLabel("Label").fill("nightly copy");
    await page.getByLabel("Label").waitFor();
    await glance(atHpc, "token-new");
    await flow.click(button(page, "Create"));
    await flow.click(button(page, "Copy the token"));
    assert.ok(flow.clicks <= 5);
    const token = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(await statusOf(hpc, token), 200);
    await glance(atHpc, "token-made");
    await button(page, "Done").click();
    await inspect(atHpc, "account", () => page.getByText("nightly copy").waitFor());
    await button(page, "Revoke nightly copy").click();
    await button(page, "Revoke").click();
    await page.getByText("You have no token").waitFor();
    await until("the token is refused", async () => (await statusOf(hpc, token)) === 401);
  },
);

const submit = async (from, to, label, rate) => {
  const words = ["--label", label, "--bwlimit", rate];
  return hpc.penstock("transfer", "submit", `lab:raw/${from}`, `hpc:scratch/${to}/`, ...words);
};

step("Promise: operators see why each transfer waits, and change that", async () => {
  const { page } = atHpc;
  await entry(page, "Queue").click();
  await page.getByText("No transfer waits").waitFor();
  await button(page, "Change the limit of site hpc").click();
  await page.getByLabel("Transfers at a time").fill("1");
  await page.getByLabel("Rate of all together").fill("fast");
  await page.getByText("As 2 Gbit/s or 500 MB/s").waitFor();
  await page.getByLabel("Rate of all together").fill("80 Mbit/s");
  await button(page, "Set limit").click();
  await submit("run8", "a", "run 8", "8Mbit/s");
  await submit("run7", "b", "run 7", "8Mbit/s");
  await submit("run8", "c", "run 8 again", "8Mbit/s");
  await page.getByText("run 8 again", { exact: true }).waitFor();
  await button(page, "Start first: run 8 again").click();
  await button(page, "Not urgent: run 8 again").waitFor();

  await button(page, "Window").click();
  await page.getByLabel("Name", { exact: true }).fill("office");
  await page.getByLabel("Rate of all together").fill("2 Gbit/s");
  await button(page, "Make window").click();
  await page.getByText("Mon–Fri, 08:00 to 18:00").waitFor();
  await button(page, "Window").click();
  await page.getByLabel("Name", { exact: true }).fill("backup");
  for (const day of ["Mon", "Tue", "Wed", "Thu", "Fri"]) {
    await page.getByLabel(day, { exact: true }).uncheck();
  }
  // A day on which the window is shut now: transfers of later steps must run.
  const week = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
  const later = week[(new Date().getUTCDay() + 3) % 7];
  await page.getByLabel(later, { exact: true }).check();
  await page.getByLabel("From").fill("22:00");
  await page.getByLabel("To", { exact: true }).fill("06:00");
  await page.getByLabel("Limits transfers of").selectOption("store");
  await page.getByLabel("Name of the store").fill("scratch");
  await page.getByLabel("Transfers at a time").fill("0");
  await page.getByLabel("Name of the store").waitFor();
  await glance(atHpc, "window-new");
  await button(page, "Make window").click();
  await page.getByText("no transfer of the store scratch runs").waitFor();

  await button(page, "Hold transfers").click();
  await page.getByLabel("Name of the hold").fill("upgrade");
  await page.getByLabel("With this in the label").fill("run 7");
  await page.getByLabel("Reason, which their users see").fill("detector calibration");
  await button(page, "Hold").click();
  await page.getByText("detector calibration").first().waitFor();
  await page.getByText("pause-rule").waitFor();
  await inspect(atHpc, "queue", () => page.getByText("pause-rule").waitFor());
  await page.getByRole("list", { name: "Windows" }).scrollIntoViewIfNeeded();
  await glance(atHpc, "queue-windows");
  await button(page, "Release upgrade").click();
  await button(page, "Release").click();
  await page.getByText("pause-rule").waitFor({ state: "hidden" });
});

step(
  "Promise: a host is drained in four clicks that say the effect, and gets work again",
  async () => {
    const { page } = atHpc;
    const flow = counter();
    await flow.click(entry(page, "Peers"));
    const card = page.getByRole("list", { name: "Peers" }).getByRole("listitem").first();
    await card.getByText("Transfers that it writes").waitFor();
    await inspect(atHpc, "peers", () => card.getByText("Transfers that it writes").waitFor());
    await button(page, "Examine this host").click();
    const report = page.getByRole("region", { name: /^Doctor of / });
    await report.getByRole("list", { name: "Findings" }).getByText(/clock/).first().waitFor();
    await report.scrollIntoViewIfNeeded();
    await inspect(atHpc, "peers-doctor", () => report.getByText("examined").waitFor());
    await flow.click(page.getByRole("button", { name: /^Drain / }));
    const dialog = page.getByRole("dialog");
    await dialog.getByText(/No other peer can take over/).waitFor();
    await glance(atHpc, "peers-drain");
    // The daemon refuses to drain the only peer of a store that is written: its reason is shown.
    atHpc.expectLoss();
    await flow.click(dialog.getByRole("button", { name: /^Drain / }));
    await dialog.getByRole("alert").waitFor();
    assert.ok(flow.clicks <= 4);
    await dialog.getByRole("button", { name: "Leave it at work" }).click();
  },
);

step(
  "Promise: search finds pages, transfers, sites and stores, by the keyboard alone",
  async () => {
    const { page } = atHpc;
    await page.keyboard.press("Control+k");
    const box = page.getByRole("combobox", { name: "Search" });
    await box.fill("run 8");
    await page.getByRole("option", { name: /run 8 again/ }).waitFor();
    await page.getByRole("option").first().waitFor();
    await glance(atHpc, "search");
    await box.fill("scratch");
    await page.getByRole("option", { name: /^scratch Store/ }).waitFor();
    await box.fill("lab");
    await page.getByRole("option", { name: /^lab Site/ }).waitFor();
    await box.fill("audit");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
  },
);

step("Promise: the audit log names who did what, and its filters are in the address", async () => {
  const { page } = atHpc;
  await page.getByRole("table", { name: "Audit log" }).waitFor();
  await inspect(atHpc, "audit");
  await page.getByLabel("Object").fill("upgrade");
  await page.waitForURL(/object=upgrade/);
  await until("two lines", async () => (await page.getByRole("row").count()) === 3);
  await page.getByLabel("User").fill("nobody");
  await page.getByText("No line fits the filters").waitFor();
  await button(page, "Clear the filters").click();
  await entry(page, "Events").click();
  await page.getByRole("table", { name: "Events" }).waitFor();
  await inspect(atHpc, "events", () => page.getByRole("table", { name: "Events" }).waitFor());
});

step("Promise: settings tell where each is set, and a reload takes what has changed", async () => {
  const { page } = atHpc;
  await entry(page, "Settings").click();
  await page.getByText("penstock.toml:").first().waitFor();
  await inspect(atHpc, "settings", () => page.getByText("penstock.toml:").first().waitFor());
  const file = path.join(hpc.dir, "penstock.toml");
  const before = await readFile(file, "utf8");
  const after = before.replace("running_max = 4", "running_max = 6");
  await writeFile(file, `${after}\n[webhook]\nallow = ["https://127.0.0.1:9/"]\n`);
  await button(page, "Reload").click();
  await page.getByText("In force now: running_max").waitFor();
  await page.getByText("Counts at the next start only: webhook.allow", { exact: true }).waitFor();
  await glance(atHpc, "settings-reload");
  await button(page, "Close").last().click();
  await page.getByText("counts at the next start only: webhook.allow").waitFor();
  await button(page, "Copy running_max as TOML").click();
  const toml = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal(toml, "running_max = 6");
});

step("Promise: a webhook is made, tested, and says why its receiver is not reached", async () => {
  const { page } = atHpc;
  // The allowed address counts from a start on; the page is back by itself.
  await hpc.kill();
  await hpc.start();
  await page.getByText("live", { exact: true }).waitFor();
  await entry(page, "Webhooks").click();
  await page.getByText("No webhook").waitFor();
  await button(page, "New webhook").click();
  await page.getByLabel("Name", { exact: true }).fill("ops");
  await page.getByLabel("Address").fill("https://127.0.0.1:9/penstock");
  await page.getByLabel("done", { exact: true }).uncheck();
  await page.getByLabel("Address").waitFor();
  await glance(atHpc, "webhook-new");
  await button(page, "Make webhook").click();
  await button(page, "Copy the secret").waitFor();
  await button(page, "Done").click();
  await page.getByRole("link", { name: "ops" }).click();
  await button(page, "Test").click();
  await page.getByText(/^Test: /).waitFor();
  await page.getByRole("table", { name: "Deliveries" }).getByText("given up").waitFor();
  await inspect(atHpc, "webhook");
  await page.getByRole("link", { name: "Webhooks" }).first().click();
  await inspect(atHpc, "webhooks", () => page.getByRole("link", { name: "ops" }).waitFor());
});

step("Promise: an administrator makes a user with grants, and gets its link once", async () => {
  const { page } = atHpc;
  await entry(page, "Users").click();
  await button(page, "New user").click();
  await page.getByLabel("Name", { exact: true }).fill("carla");
  await page.getByLabel("write scratch").check();
  await page.getByLabel("write scratch").waitFor();
  await glance(atHpc, "user-new");
  await button(page, "Make user").click();
  await button(page, "Make link").click();
  await button(page, "Copy the link").click();
  const link = await page.evaluate(() => navigator.clipboard.readText());
  assert.ok(link.startsWith(`${hpc.url}/invitation#`));
  await glance(atHpc, "user-link");
  await button(page, "Done").click();
  await inspect(atHpc, "users", () => page.getByText("scratch: write").waitFor());
  await button(page, "More about carla").click();
  await page.getByRole("menuitem", { name: "Remove" }).click();
  await button(page, "Remove carla").click();
  await page.getByText("scratch: write").waitFor({ state: "hidden" });
  assert.deepEqual(atHpc.faults, []);
});

step("Promise: what a role may not use is absent, and a link there names the role", async () => {
  const tab = await enter(hpc, "vic", "/queue");
  const { page } = tab;
  await page.getByText("This page is for the role operator").waitFor();
  await page.getByText("for the role operator").waitFor();
  await glance(tab, "no-right");
  for (const name of ["Queue", "Users", "Webhooks", "Audit", "Settings"]) {
    assert.equal(await entry(page, name).count(), 0, name);
  }
  await entry(page, "Sites").click();
  await page.getByRole("link", { name: "lab" }).waitFor();
  assert.equal(await button(page, "Pair").count(), 0);
  await entry(page, "Peers").click();
  await page.getByRole("list", { name: "Peers" }).waitFor();
  assert.equal(await page.getByRole("button", { name: /^Drain / }).count(), 0);
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});

step(
  "Promise: to unpair says the effect in numbers, and both sites forget each other's keys",
  async () => {
    const { page } = atLab;
    await go(page, "/sites/hpc");
    await page.getByRole("heading", { level: 1, name: "hpc" }).waitFor();
    await page.getByText("Certificate ends").first().waitFor();
    await button(page, "Unpair").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(/Neither site accepts the other/).waitFor();
    await glance(atLab, "unpair");
    await dialog.getByRole("button", { name: "Unpair hpc" }).click();
    await page.getByText("No other site is paired").waitFor();
    assert.deepEqual(atLab.faults, []);
  },
);
