/**
 * Real sites for the tests of the page: daemons of `PENSTOCK_BIN` in directories of their own, with
 * users, data, and pairings. Everything ends with the process that made it.
 */

import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, "../..");
export const BIN = process.env.PENSTOCK_BIN ?? path.join(root, "target/debug/penstock");
export const PASSWORD = "four quiet blue pipes";

/** A directory to serve the page from, such as `dist`, in place of the page in the program. */
const WEB_DIR = process.env.PENSTOCK_WEB_DIR;

/** Longest time for a daemon to be ready, in milliseconds. */
const READY_MS = 20_000;

/**
 * Returns a port that nobody listens at now, below the range of outgoing connections of Linux: a
 * daemon that starts again wants the same.
 */
async function freePort() {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 20_000);
    const server = createServer();
    const free = await new Promise((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => resolve(true));
    });
    if (free) {
      await new Promise((resolve) => server.close(resolve));
      return port;
    }
  }
}

/** Waits until `look` returns something; fails with `what` after `ms`. */
export async function until(what, look, ms = READY_MS) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await look();
    if (found) {
      return found;
    }
    if (Date.now() > end) {
      throw new Error(`${what}: not within ${ms} ms`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export class Site {
  constructor(name, base, web) {
    this.name = name;
    this.base = base;
    this.dir = path.join(base, name);
    this.stores = path.join(base, `${name}-stores`);
    this.url = `https://127.0.0.1:${web}`;
    this.web = web;
    this.daemon = null;
  }

  /** Runs a command of the site, and returns what it prints. */
  async penstock(...words) {
    const env = { ...process.env, PENSTOCK_DIR: this.dir };
    // Lists of failed items are written where a command runs.
    const { stdout } = await run(BIN, words, { env, cwd: this.base });
    return stdout.trim();
  }

  /** Runs a command with `--json`, and returns the objects that it prints, one a line. */
  async list(...words) {
    const text = await this.penstock(...words, "--json");
    return text
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line));
  }

  /** Runs a command with a text as its standard input. */
  async penstockWith(input, ...words) {
    const env = { ...process.env, PENSTOCK_DIR: this.dir };
    const child = spawn(BIN, words, { env, stdio: ["pipe", "pipe", "pipe"] });
    let out = "";
    let err = "";
    child.stdout.on("data", (part) => {
      out += part;
    });
    child.stderr.on("data", (part) => {
      err += part;
    });
    child.stdin.end(input);
    const code = await new Promise((resolve) => child.on("close", resolve));
    if (code !== 0) {
      throw new Error(`penstock ${words.join(" ")}: exit ${code}: ${err}`);
    }
    return out.trim();
  }

  /** Starts the daemon, and waits until it is ready. */
  async start() {
    const env = { ...process.env, PENSTOCK_DIR: this.dir };
    const words = WEB_DIR ? ["--web-dir", path.resolve(WEB_DIR)] : [];
    const child = spawn(BIN, ["daemon", ...words], { env, stdio: ["ignore", "pipe", "pipe"] });
    this.daemon = child;
    let log = "";
    child.stderr.on("data", (part) => {
      log = (log + part).slice(-20_000);
    });
    this.log = () => log;
    await new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`${this.name}: not ready: ${log}`)),
        READY_MS,
      );
      const settle = (done) => (value) => {
        clearTimeout(timer);
        done(value);
      };
      let out = "";
      child.stdout.on("data", (part) => {
        out += part;
        if (/^ready:/m.test(out)) {
          settle(resolve)();
        }
      });
      child.once("exit", (code) => settle(reject)(new Error(`${this.name}: exit ${code}: ${log}`)));
    });
  }

  /** Ends the daemon at once, as a power cut would. */
  async kill() {
    const child = this.daemon;
    this.daemon = null;
    if (child !== null && child.exitCode === null) {
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await gone;
    }
  }

  /** Makes a user with a password. */
  async user(name, role, ...grants) {
    const words = grants.flatMap((grant) => ["--grant", grant]);
    await this.penstock("user", "set", name, "--role", role, ...words);
    await this.penstockWith(`${PASSWORD}\n`, "user", "passwd", name, "--stdin");
  }

  /** Writes files of so many bytes into a store; returns their directory. */
  async data(store, name, files, bytes) {
    const dir = path.join(this.stores, store, name);
    await mkdir(dir, { recursive: true });
    for (let index = 0; index < files; index += 1) {
      const file = path.join(dir, `frame-${String(index).padStart(4, "0")}.dat`);
      await writeFile(file, Buffer.alloc(bytes, index));
    }
    return dir;
  }
}

/**
 * Makes and starts sites: `[name, ...stores]` each. The result has them by name, and `close`, which
 * ends their daemons and removes what they have left.
 */
export async function sites(...wanted) {
  if (!existsSync(BIN)) {
    throw new Error(`${BIN} is missing: cargo build --package penstock, or set PENSTOCK_BIN`);
  }
  const base = await mkdtemp(path.join(tmpdir(), "penstock-web-"));
  const made = {};
  const close = async () => {
    await Promise.all(Object.values(made).map((site) => site.kill()));
    await rm(base, { recursive: true, force: true });
  };
  try {
    for (const [name, ...stores] of wanted) {
      const site = new Site(name, base, await freePort());
      made[name] = site;
      for (const store of stores) {
        await mkdir(path.join(site.stores, store), { recursive: true });
      }
      await site.penstock(
        "site",
        "init",
        ...["--name", name, "--listen", "127.0.0.1:0", `--web=127.0.0.1:${site.web}`],
        ...stores.flatMap((store) => ["--store", `${store}=${path.join(site.stores, store)}`]),
      );
      await site.start();
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { ...made, base, close };
}

/** Pairs two sites; `write` names stores of the first to which the second may submit. */
export async function pair(first, second, ...write) {
  const words = write.flatMap((store) => ["--write", store]);
  const token = await first.penstock("site", "pair", ...words);
  const line = token.split("\n").find((text) => /^\S{40,}$/.test(text.trim())) ?? token;
  await second.penstockWith(`${line.trim()}\n`, "site", "pair", "-");
}
