/**
 * Where the page is served: at the root of a host, or below a path of a proxy, as `/penstock`. The
 * daemon knows nothing of that path: the page learns it from the address of its own program.
 */

/** The path of the page without its last `/`; empty at the root. */
export const BASE = baseOf(import.meta.url);

/** Returns the path below which a program of the page was served. */
export function baseOf(program: string): string {
  return new URL(program).pathname.replace(/\/(assets|src)\/[^/]*$/, "");
}

/** Returns a path of the daemon, as `/api/v1/events`, as this browser reaches it. */
export function at(path: string): string {
  return BASE + path;
}

/** The address by which programs reach the API: they know no paths of proxies. */
export const PROGRAM_URL = BASE === "" ? (globalThis.location?.origin ?? "") : "https://HOST:PORT";
