/** The pages of transfers, with real data that moves between two real sites. */

import assert from "node:assert/strict";
import { rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import { checkAccess, inspect, logIn, openBrowser, openPage, picture } from "./browser.mjs";
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
    lab.data("raw/2026", "run7", 40, 1 << 20),
    lab.data("raw/2026", "run8", 60, 1 << 18),
    lab.data("raw/2026", "calibration", 3, 1 << 12),
    lab.data("raw", "small", 3, 1 << 12),
  ]);
  await hpc.user("ben", "user", "scratch=read,write");
  await hpc.user("vera", "viewer");
  // A name of bytes that are no text.
  const odd = Buffer.concat([Buffer.from(`${lab.stores}/raw/2026/run`), Buffer.from([0xff])]);
  await writeFile(odd, "odd");
});

after(async () => {
  await browser?.close();
  await all?.close();
});

const submit = async (...words) => {
  const printed = await hpc.penstock("transfer", "submit", ...words);
  return printed.split("\n").at(-1).trim();
};

const heading = (page, name) => page.getByRole("heading", { level: 1, name });
const tick = (page, name) => page.getByRole("option", { name }).getByTestId("tick");

async function opened(user, to = "/", options = {}) {
  const tab = await openPage(browser, hpc, { path: to, ...options });
  await logIn(tab.page, user, PASSWORD);
  return tab;
}

test("Promise: a transfer is planned and begun in five clicks, and a level each", async () => {
  const tab = await opened("anna");
  const { page } = tab;
  await heading(page, "Overview").waitFor();
  const clicks = new Clicks(page);
  await clicks.on(page.getByRole("link", { name: "New", exact: true }));
  await heading(page, "New transfer").waitFor();
  await page.getByLabel("Source site").selectOption("lab");
  await page.getByLabel("Target site").selectOption("hpc");
  await page.getByRole("option", { name: "small/" }).waitFor();
  await clicks.on(page.getByRole("option", { name: "2026/" }));
  // Bytes that are no text are shown as escapes, and can be chosen.
  await page.getByRole("option", { name: "run\\xff" }).waitFor();
  await clicks.on(tick(page, "run7/"));
  await page.getByLabel("Label", { exact: true }).fill("run 7");
  await clicks.on(page.getByRole("button", { name: "Plan", exact: true }));
  await page.getByText("Copy", { exact: true }).first().waitFor();
  await page.getByRole("list", { name: "First items" }).waitFor();
  await page.getByText("Both sites compare").waitFor({ state: "hidden" });
  await inspect(tab, "transfer-new");
  await clicks.on(page.getByRole("button", { name: "Start", exact: true }));
  await heading(page, "run 7").waitFor();
  clicks.atMost(6, "submit with a plan");
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});

test("Promise: what was typed survives a log-in, and is the command that one copies", async () => {
  const tab = await opened("anna", "/new");
  const { page, context } = tab;
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  // The places of the last transfer from this browser are there; this browser had none.
  await page.getByLabel("Target site").selectOption("hpc");
  await page.getByLabel("Source site").selectOption("lab");
  await page.getByRole("option", { name: "2026/" }).click();
  await tick(page, "run7/").click();
  await tick(page, "run8/").click();
  await page.getByLabel("Label", { exact: true }).fill("two runs");
  await page.getByRole("button", { name: "Change options" }).click();
  await page.getByRole("switch", { name: "Leave what is the same" }).click({ force: true });
  await page.getByLabel("Rate", { exact: true }).fill("fast");
  await page.getByText("A rate of at least 500 kbit/s").first().waitFor();
  assert.ok(await page.getByRole("button", { name: "Start", exact: true }).isDisabled());
  await page.getByLabel("Rate", { exact: true }).fill("80 Mbit/s");
  await inspect(tab, "transfer-options");
  await page.evaluate(() => fetch("/api/v1/sessions/current", { method: "DELETE" }));
  await page
    .getByRole("dialog")
    .getByLabel("Password", { exact: true })
    .fill(PASSWORD, { timeout: 30_000 });
  await page.getByRole("dialog").getByRole("button", { name: "Log in" }).click();
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  assert.equal(await page.getByLabel("Label", { exact: true }).inputValue(), "two runs");
  await page.reload();
  await page.getByText("2 chosen").waitFor();
  await page.getByRole("button", { name: "Copy as command" }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal(
    command,
    "printf '%s\\n' run7 run8 | penstock transfer submit lab:raw/2026/ hpc:scratch " +
      "--label 'two runs' --wait --receipt receipt.json --sync --bwlimit 80Mbit/s --files-from -",
  );
  await page.getByRole("button", { name: "Copy as Python" }).click();
  await until("the program", async () =>
    (await page.evaluate(() => navigator.clipboard.readText())).includes("p.transfers.submit("),
  );
  assert.deepEqual(tab.faults, []);
  await context.close();
});

test("Promise: directories are made and found where they are, and errors are said there", async () => {
  const tab = await opened("anna", "/new");
  const { page } = tab;
  await page.getByLabel("Target site").selectOption("hpc");
  await page.getByRole("button", { name: "New folder" }).click();
  await page.getByLabel("Name of the folder").fill("anna");
  await page.getByRole("button", { name: "Make", exact: true }).click();
  const crumbs = page.getByRole("region", { name: "To" }).getByRole("navigation");
  await crumbs.getByRole("button", { name: "anna" }).waitFor();
  await crumbs.getByRole("button", { name: "scratch", exact: true }).click();
  // The list works by the keyboard alone.
  const list = page.getByRole("region", { name: "To" }).getByRole("listbox");
  await page.getByLabel("Find in the target").fill("ann");
  await list.getByRole("option", { name: "anna/" }).waitFor();
  await list.focus();
  await page.keyboard.press("Enter");
  await crumbs.getByRole("button", { name: "anna" }).waitFor();
  await page.getByLabel("Find in the target").fill("/no/such");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
  await checkAccess(page, "a directory that is not there");
  await page.getByRole("button", { name: "Back to the directory above" }).click();
  assert.deepEqual(
    tab.faults.filter((fault) => !/404/.test(fault)),
    [],
  );
  await tab.context.close();
});

test("Promise: a running transfer is limited, paused, resumed and proved where it is seen", async () => {
  const limit = ["--bwlimit", "8Mbit/s", "--receipt", path.join(hpc.base, "r.json")];
  const wait = hpc.penstock(
    ...["transfer", "submit", "lab:raw/2026/run7", "hpc:scratch/b/", "--label", "run 9"],
    ...[...limit, "--wait", "--no-progress"],
  );
  const tab = await opened("anna");
  const { page } = tab;
  const clicks = new Clicks(page);
  await clicks.on(page.getByRole("link", { name: "run 9" }));
  await heading(page, "run 9").waitFor();
  await page.getByText("Runs, at the limit").waitFor();
  await page.locator("canvas").waitFor();
  await page.getByText("carrying").waitFor();
  await inspect(tab, "transfer-progress", () => page.getByText("carrying").waitFor());
  // A limit, and its undo.
  const slider = page.getByRole("slider");
  await slider.focus();
  await page.keyboard.press("ArrowRight");
  await page.getByText("Rate limit: 20 Mbit/s.").waitFor();
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByText("Rate limit: 8 Mbit/s.").waitFor();
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await page.getByText("Paused by anna.").waitFor();
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await page.getByText("Runs, at the limit").waitFor();
  await slider.focus();
  await page.keyboard.press("End");
  await page.getByText("Rate limit: no limit.").waitFor();
  await wait;
  await page.getByText("Done: 40 files, 40 MiB").waitFor();
  await clicks.on(page.getByRole("tab", { name: "Proof" }));
  await page.getByText("signed by both sites").waitFor();
  const download = page.waitForEvent("download");
  await clicks.on(page.getByRole("link", { name: "Download the receipt" }));
  const file = path.join(hpc.base, "receipt.json");
  await (await download).saveAs(file);
  clicks.atMost(3, "receipt to a file");
  assert.match(await hpc.penstock("receipt", "check", file), /^ok/m);
  const notes = page.getByRole("button", { name: "Dismiss" });
  await until("the end of the notes", async () => (await notes.count()) === 0);
  await inspect(tab, "transfer-proof", () => page.getByText("signed by both sites").waitFor());
  await page.getByRole("tab", { name: "Statistics" }).click();
  await page.getByRole("row", { name: /^CPU 0 / }).waitFor();
  await page.locator("canvas").waitFor();
  await page.getByText("All figures").waitFor();
  await inspect(tab, "transfer-statistics", () => page.locator("canvas").waitFor());
  await page.getByRole("tab", { name: "Events" }).click();
  await page.getByText("anna paused it").waitFor();
  await inspect(tab, "transfer-events");
  await page.getByRole("tab", { name: "Options" }).click();
  await page.getByText("penstock transfer submit", { exact: false }).waitFor();
  await inspect(tab, "transfer-options-asked");
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});

test("Promise: from the overview to what failed in a click, and it is retried in two", async () => {
  const names = ["frame-0000.dat", "frame-0001.dat"];
  await hpc.data("scratch/taken", "calibration", 2, 1 << 10);
  const words = ["--label", "calibration", "--if-exists", "fail", "--wait", "--no-progress"];
  await submit("lab:raw/2026/calibration", "hpc:scratch/taken/", ...words).catch(() => {});
  const tab = await opened("anna");
  const { page } = tab;
  const clicks = new Clicks(page);
  await clicks.on(page.getByRole("link", { name: "Failures" }));
  await heading(page, "calibration").waitFor();
  await page.getByRole("heading", { name: "The name is taken at the target" }).waitFor();
  clicks.atMost(1, "why did it fail");
  await page.getByText("frame-0001.dat", { exact: true }).waitFor();
  await inspect(tab, "transfer-failures");
  for (const name of names) {
    await rm(path.join(hpc.stores, "scratch/taken/calibration", name));
  }
  await clicks.on(page.getByRole("button", { name: "Retry these 2" }));
  await page.getByText("Done: 3 files").waitFor();
  clicks.atMost(2, "retry only what failed");
  await page.getByText("Nothing failed").waitFor();
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});

test("Promise: the list is filtered by its address, steered by rows and in bulk", async () => {
  const slow = ["--bwlimit", "500kbit/s"];
  for (const name of ["night 1", "night 2", "night 3"]) {
    const place = `hpc:scratch/${name.replace(" ", "-")}/`;
    await submit("lab:raw/2026/run7", place, "--label", name, ...slow);
  }
  const tab = await opened("anna");
  const { page } = tab;
  const clicks = new Clicks(page);
  await clicks.on(page.getByRole("link", { name: "Transfers", exact: true }));
  const table = page.getByRole("table", { name: "Transfers" });
  await table.getByRole("link", { name: "night 3" }).waitFor();
  await table.getByRole("progressbar", { name: "Progress of night 1" }).waitFor();
  await inspect(tab, "transfers", () => table.getByText("at the limit").first().waitFor());

  // Pause from the menu of a row; the row follows.
  await clicks.on(page.getByRole("button", { name: "Actions of night 3" }));
  await clicks.on(page.getByRole("menuitem", { name: "Pause", exact: true }));
  clicks.atMost(3, "pause");
  await table.getByText("by anna").waitFor();

  // Filters are in the address, and in words where nothing fits.
  await page.getByRole("button", { name: "Running", exact: true }).click();
  await page.getByLabel("Part of the label").fill("night");
  await page.waitForURL("**/transfers?state=running&label=night");
  await table.getByRole("link", { name: "night 3" }).waitFor({ state: "hidden" });
  await page.getByLabel("Part of the label").fill("nothing like it");
  await page.getByText("No transfer matches").waitFor();
  await checkAccess(page, "an empty list");
  await page.getByRole("button", { name: "Clear the filter" }).click();

  // A filter has a name in this browser, for this user.
  await page.getByRole("button", { name: "Failed", exact: true }).click();
  await page.getByRole("button", { name: "Views" }).click();
  await page.getByRole("menuitem", { name: "Save this filter" }).click();
  await page.getByLabel("Name of the view").fill("to mend");
  await inspect(tab, "transfers-view-save", () => page.getByRole("dialog").waitFor());
  await page.getByRole("button", { name: "Save the view" }).click();
  await page.getByRole("button", { name: "All", exact: true }).click();
  await page.waitForURL("**/transfers");
  await page.reload();
  await page.getByRole("button", { name: "Views" }).click();
  await page.getByRole("menuitem", { name: "Save this filter" }).waitFor();
  await picture(page, "transfers-views");
  await page.getByRole("menuitem", { name: "to mend" }).click();
  await page.waitForURL("**/transfers?state=failed");
  await page.getByRole("button", { name: "to mend" }).click();
  await page.getByRole("menuitem", { name: "Remove" }).click();
  await page.getByRole("button", { name: "Views" }).waitFor();
  await page.getByRole("button", { name: "All", exact: true }).click();
  await table.getByRole("link", { name: "night 3" }).waitFor();

  // In bulk: the dialog says the effect in numbers.
  for (const name of ["night 1", "night 2", "night 3"]) {
    await page.getByRole("checkbox", { name: `Choose ${name}` }).click();
  }
  await page.getByRole("button", { name: "Resume 1" }).waitFor();
  await checkAccess(page, "chosen transfers");
  await picture(page, "transfers-chosen");
  await page.getByRole("button", { name: "Cancel 3" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(/do not move/).waitFor();
  await checkAccess(page, "a cancellation");
  await dialog.getByRole("button", { name: "Cancel 3 transfers" }).click();
  await dialog.waitFor({ state: "hidden" });
  await until("cancelled", async () => (await table.getByText("cancelled").count()) >= 3);

  // Again: the form is as it was, and starts.
  const again = new Clicks(page);
  again.count = 1;
  await again.on(page.getByRole("button", { name: "Actions of calibration" }));
  await again.on(page.getByRole("menuitem", { name: "Submit again" }));
  await page.getByText("A different item of the same name: leave it, and count it as failed");
  await page.getByText("1 chosen").waitFor();
  await again.on(page.getByRole("button", { name: "Start", exact: true }));
  await heading(page, "calibration").waitFor();
  again.atMost(4, "submit again a former one");
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});

test("Promise: who may not steer is offered nothing, and a user sees the own transfers", async () => {
  const viewer = await opened("vera", "/transfers");
  await viewer.page.getByRole("link", { name: "night 1" }).waitFor();
  assert.equal(await viewer.page.getByRole("link", { name: /New/ }).count(), 0);
  assert.equal(await viewer.page.getByRole("checkbox").count(), 0);
  await viewer.page.getByRole("button", { name: "Actions of night 1" }).click();
  assert.deepEqual(await viewer.page.getByRole("menuitem").allInnerTexts(), ["Copy the id"]);
  await viewer.page.keyboard.press("Escape");
  await checkAccess(viewer.page, "transfers of a viewer");
  await viewer.page.getByRole("link", { name: "run 9" }).click();
  await heading(viewer.page, "run 9").waitFor();
  assert.equal(await viewer.page.getByRole("button", { name: "Submit again" }).count(), 0);
  await viewer.page.goto("/new");
  await viewer.page.getByText(/role/).first().waitFor();
  assert.deepEqual(viewer.faults, []);
  await viewer.context.close();

  const user = await opened("ben", "/transfers");
  await user.page.getByText("No transfer yet").waitFor();
  await checkAccess(user.page, "no transfer");
  await user.page.getByRole("link", { name: "New transfer" }).first().click();
  await user.page.getByLabel("Source site").selectOption("lab");
  await user.page.getByLabel("Target site").selectOption("hpc");
  await tick(user.page, "small/").click();
  await user.page.getByRole("button", { name: "Start", exact: true }).click();
  await user.page.getByText("Done: 3 files").waitFor();
  await user.page.getByRole("link", { name: "Transfers", exact: true }).first().click();
  await user.page.getByRole("row").nth(1).waitFor();
  assert.equal(await user.page.getByRole("row").count(), 2);
  assert.deepEqual(user.faults, []);
  await user.context.close();
});

test("Promise: a list of 100,000 transfers scrolls, and few of its rows are in the page", async () => {
  const tab = await openPage(browser, hpc, { path: "/login" });
  const { page } = tab;
  const [real] = JSON.parse(
    await hpc.penstock("transfer", "list", "--json").then((text) => `[${text.split("\n")[0]}]`),
  );
  const total = 100_000;
  await page.route("**/api/v1/transfers?*", (route) => {
    const query = new URL(route.request().url()).searchParams;
    // Large parts, so that the page is tested rather than the way there.
    const limit = Number(query.get("limit") ?? 100) * 20;
    const begin = Number(query.get("cursor") ?? 0);
    const items = Array.from({ length: Math.min(limit, total - begin) }, (_, index) => ({
      ...template(real),
      id: (begin + index).toString(16).padStart(32, "0"),
      label: `run ${begin + index}`,
    }));
    const next = begin + limit < total ? String(begin + limit) : undefined;
    return route.fulfill({ json: { items, next } });
  });
  await page.goto("/transfers");
  await logIn(page, "anna", PASSWORD);
  await page.getByRole("link", { name: "run 0", exact: true }).waitFor();
  const subtitle = page.getByText(/^[\d,]+( or more)? transfers$/);
  await until(
    "the end of the list",
    async () => {
      await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
      return (await subtitle.textContent()) === "100,000 transfers";
    },
    30_000,
  );
  await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
  await page.getByRole("link", { name: "run 99999", exact: true }).waitFor();
  assert.ok((await page.getByRole("row").count()) <= 200);
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});

/** A transfer as lists have it, from one of the command line. */
function template(view) {
  const { options: _, limits: __, failures, ...summary } = view;
  return {
    ...summary,
    state: "done",
    waiting: undefined,
    failures: { count: failures?.count ?? 0 },
  };
}
