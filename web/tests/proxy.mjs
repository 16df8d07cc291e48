/** A proxy before a site, as nginx would be one: it serves the site below a path. */

import http from "node:http";
import https from "node:https";

/**
 * Starts a proxy; the result has its `url`, and `close`. What `answer` takes, by returning true, it
 * has answered itself: recorded answers that no small site gives.
 */
export async function startProxy(site, { below = "", answer = () => false } = {}) {
  const agent = new https.Agent({ keepAlive: true, rejectUnauthorized: false });
  const server = http.createServer((request, response) => {
    if (!request.url.startsWith(`${below}/`)) {
      response.writeHead(404).end("outside");
      return;
    }
    const path = request.url.slice(below.length);
    if (answer(path, response)) {
      return;
    }
    const { method, headers } = request;
    const sent = https.request(site.url + path, { method, headers, agent }, (got) => {
      response.writeHead(got.statusCode, got.headers);
      // A stream of events has no body for a while.
      response.flushHeaders();
      got.pipe(response);
    });
    sent.on("error", () => response.destroy());
    response.on("close", () => sent.destroy());
    request.pipe(sent);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    server.closeAllConnections();
    agent.destroy();
    return new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${server.address().port}`, close };
}
