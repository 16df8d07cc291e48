/** How the page is served: what protects it, and what a browser may keep. */

import assert from "node:assert/strict";
import { request } from "node:https";
import { after, before, test } from "node:test";
import { sites } from "./site.mjs";

let all;

before(async () => {
  all = await sites(["lab", "raw"]);
});

after(() => all?.close());

/** Returns status and headers of a request; the certificate is of the site's own authority. */
function get(path, headers = {}) {
  const options = { headers, rejectUnauthorized: false };
  return new Promise((resolve, reject) => {
    const sent = request(all.lab.url + path, options, (answer) => {
      let text = "";
      answer.on("data", (part) => {
        text += part;
      });
      answer.on("end", () => resolve({ status: answer.statusCode, headers: answer.headers, text }));
    });
    sent.on("error", reject);
    sent.end();
  });
}

test("Promise: each address shows the page, and a cookie that has ended hinders nobody", async () => {
  const cookie = `__Host-penstock=${"a".repeat(40)}`;
  for (const path of ["/", "/setup", "/transfers/1a2b"]) {
    const answer = await get(path, { accept: "text/html", cookie });
    assert.equal(answer.status, 200, path);
    assert.match(answer.text, /<div id="root">/);
    assert.match(answer.headers["content-security-policy"], /default-src 'none'/);
    assert.doesNotMatch(answer.headers["content-security-policy"], /unsafe/);
    assert.equal(answer.headers["x-content-type-options"], "nosniff");
    assert.equal(answer.headers["cache-control"], "no-cache");
  }
});

test("Promise: the page shadows no path of the API, and other names get nothing", async () => {
  assert.equal((await get("/api/v1/none", { accept: "text/html" })).status, 404);
  assert.equal((await get("/api/v1/me", { accept: "text/html" })).status, 401);
  assert.equal((await get("/healthz")).text.trim(), "ok");
  for (const accept of ["*/*", "text/html"]) {
    const missing = await get("/assets/none.js", { accept });
    assert.equal(missing.status, 404);
    assert.equal(missing.headers["cache-control"], "no-store");
  }
  assert.equal((await get("/", { host: "evil.example" })).status, 421);
});

test("Promise: each file that a script or an index names is there, and is kept", async () => {
  const names = new Set();
  const look = (text) => {
    for (const [, name] of text.matchAll(/[/"`]([\w-]+-[\w-]{8}\.(?:js|css))["`]/g)) {
      names.add(name);
    }
  };
  look((await get("/")).text);
  for (const name of names) {
    const file = await get(`/assets/${name}`);
    assert.equal(file.status, 200, name);
    assert.match(file.headers["cache-control"], /immutable/, name);
    assert.match(file.headers["content-security-policy"], /default-src 'none'/, name);
    look(file.text);
  }
  assert.ok(names.size > 20, `${names.size} files`);
});

test("Promise: a browser keeps what never changes, and asks about the rest", async () => {
  const index = await get("/");
  const script = /src="\.(\/assets\/[^"]+)"/.exec(index.text)[1];
  const answer = await get(script, { "accept-encoding": "gzip" });
  assert.match(answer.headers["cache-control"], /immutable/);
  assert.equal(answer.headers["content-encoding"], "gzip");
  const again = await get("/", { "if-none-match": index.headers.etag });
  assert.equal(again.status, 304);
});
