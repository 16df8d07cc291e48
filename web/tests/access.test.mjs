/** Who comes in, and how: set-up, log-in, log-out, invitation, a program without a browser. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, before, test } from "node:test";
import { inspect, logIn, openBrowser, openPage } from "./browser.mjs";
import { BIN, PASSWORD, sites } from "./site.mjs";

let all;
let lab;
let browser;

before(async () => {
  [all, browser] = await Promise.all([sites(["lab", "raw"]), openBrowser()]);
  lab = all.lab;
});

after(async () => {
  await browser?.close();
  await all?.close();
});

const anna = { name: "anna", password: PASSWORD };

test("Promise: a link makes the first administrator, once", async () => {
  const link = await lab.penstock("web", "setup");
  const { pathname, hash } = new URL(link);
  const tab = await openPage(browser, lab, { path: pathname + hash });
  const { page } = tab;
  await inspect(tab, "setup", () => page.getByLabel("Name").waitFor());
  await page.getByLabel("Name").fill(anna.name);
  await page.getByLabel("Password", { exact: true }).fill(anna.password);
  await page.getByLabel("The same again").fill("another one than that");
  await page.getByRole("button", { name: "Make the administrator" }).click();
  await page.getByText("They differ").waitFor();
  await page.getByLabel("The same again").fill(anna.password);
  await page.getByRole("button", { name: "Make the administrator" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await inspect(tab, "first-use", () => page.getByText("Begin here").waitFor());
  await page.getByRole("button", { name: "User anna" }).click();
  await page.getByRole("menuitem", { name: "Log out" }).click();
  await page.getByText("You have logged out.").waitFor();
  // Not only the page has forgotten the session.
  await page.goto(`${lab.url}/`);
  await page.getByRole("heading", { name: "Log in" }).waitFor();
  await tab.context.close();

  const again = await openPage(browser, lab, { path: pathname + hash });
  await again.page.getByLabel("Name").fill("mallory");
  await again.page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await again.page.getByLabel("The same again").fill(PASSWORD);
  again.expectLoss();
  await again.page.getByRole("button", { name: "Make the administrator" }).click();
  await again.page.getByRole("alert").waitFor();
  assert.deepEqual(again.faults, []);
  await again.context.close();
});

test("Promise: a log-out that fails says so, and nobody believes to be out", async () => {
  const tab = await openPage(browser, lab);
  const { page } = tab;
  await logIn(page, anna.name, anna.password);
  tab.expectLoss();
  await page.route("**/api/v1/sessions/current", (route) =>
    route.fulfill({
      status: 503,
      contentType: "application/problem+json",
      body: JSON.stringify({ type: "about:blank", status: 503, code: "busy", title: "busy" }),
    }),
  );
  await page.getByRole("button", { name: "User anna" }).click();
  await page.getByRole("menuitem", { name: "Log out" }).click();
  await page.getByText("You are still logged in").waitFor();
  await page.unroute("**/api/v1/sessions/current");
  await page.goto(`${lab.url}/`);
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await tab.context.close();
});

test("Promise: whoever comes by a link to a page gets there by the log-in, and no one else", async () => {
  const tab = await openPage(browser, lab, { path: "/about" });
  const { page } = tab;
  await page.waitForURL("**/login?next=%2Fabout");
  await inspect(tab, "login", () => page.getByText("Log in to see that page.").waitFor());
  tab.expectLoss();
  await page.getByLabel("Name").fill(anna.name);
  await page.getByLabel("Password", { exact: true }).fill("not her password at all");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("alert").waitFor();
  await logIn(page, anna.name, anna.password);
  await page.waitForURL("**/about");
  await page.getByText("uplot").waitFor();
  await inspect(tab, "about");
  await tab.context.close();
});

test("Promise: an invited user chooses its password, and sees no more than its role has", async () => {
  await lab.penstock("user", "set", "vic", "--role", "viewer");
  const { pathname, hash } = new URL(await lab.penstock("user", "invite", "vic"));
  const tab = await openPage(browser, lab, { path: pathname + hash });
  const { page } = tab;
  await inspect(tab, "invitation", () => page.getByLabel("The same again").waitFor());
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByLabel("The same again").fill(PASSWORD);
  await page.getByRole("button", { name: "Set the password" }).click();
  await page.getByRole("button", { name: "User vic" }).waitFor();
  const entries = page.getByRole("navigation", { name: "Pages" }).first().getByRole("link");
  const names = (await entries.allInnerTexts()).map((text) => text.trim());
  for (const name of ["Users", "Queue", "Audit", "Settings"]) {
    assert.ok(!names.includes(name), `${name} is in the menu of a viewer: ${names}`);
  }
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});

test("Promise: a program is let in by its code, and refused by a word", async () => {
  const tab = await openPage(browser, lab);
  const { page } = tab;
  await logIn(page, anna.name, anna.password);
  for (const decision of ["Allow", "Deny"]) {
    const ca = `${all.base}/ca.pem`;
    const env = { ...process.env, HOME: all.base, PENSTOCK_DIR: "", CA: ca };
    const words = ["login", lab.url, "--fingerprint", await fingerprint()];
    const program = spawn(BIN, words, { env, stdio: ["ignore", "pipe", "pipe"] });
    const ended = new Promise((resolve) => program.once("close", resolve));
    const code = await new Promise((resolve, reject) => {
      let text = "";
      const look = (part) => {
        text += part;
        const found = /\b[A-Z]{4}-[A-Z]{4}\b/.exec(text);
        if (found) {
          resolve(found[0]);
        }
      };
      program.stdout.on("data", look);
      program.stderr.on("data", look);
      program.once("close", () => reject(new Error(`penstock login: ${text}`)));
    });
    await page.goto(`/device?user_code=${code}`);
    await page.getByText(code).waitFor();
    if (decision === "Allow") {
      await inspect(tab, "device");
    }
    await page.getByRole("button", { name: decision }).click();
    await page
      .getByRole("status")
      .filter({ hasText: /acts as anna|gets no token/ })
      .waitFor();
    assert.equal((await ended) === 0, decision === "Allow");
  }
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});

/** The fingerprint of the authority of the site, as `site list` has it. */
async function fingerprint() {
  const own = (await lab.list("site", "list")).find((site) => site.own);
  return own.fingerprint;
}

test("Promise: when a session is over the page asks for a log-in, and keeps what it shows", async () => {
  const tab = await openPage(browser, lab);
  const { page } = tab;
  await logIn(page, anna.name, anna.password);
  await page.goto("/device");
  await page.getByLabel("Code that the program shows").fill("ABCD");
  for (const session of await lab.list("auth", "sessions", "--user", "anna")) {
    await lab.penstock("auth", "end", session.id);
  }
  const dialog = page.getByRole("dialog", { name: "Your session is over" });
  await dialog.waitFor();
  await inspect(tab, "session-over", () => dialog.waitFor());
  await dialog.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await dialog.getByRole("button", { name: "Log in" }).click();
  await dialog.waitFor({ state: "hidden" });
  assert.equal(await page.getByLabel("Code that the program shows").inputValue(), "ABCD");
  assert.deepEqual(tab.faults, []);
  await tab.context.close();
});
