/** Writes the licences of the packages that the page contains, as `licences.json`. */

import { readFileSync } from "node:fs";
import path from "node:path";
import type { Plugin } from "vite";

interface Lock {
  packages: Record<string, { version?: string; license?: string; dev?: boolean }>;
}

interface Licence {
  name: string;
  version: string;
  licence: string;
}

/** Licences that a package of the page may have: those of `deny.toml`, and public domain. */
const ALLOWED = ["0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "Unlicense"];
/** Most packages of the page, so that each further one is a decision. */
const PACKAGES_MAX = 60;
/** Packages of the languages: of them the page has types alone. */
const TYPES = /(^|\/)(@types\/|csstype$|type-fest$)/;

const SEPARATOR = "node_modules/";

function licences(root: string): Licence[] {
  const lock = JSON.parse(readFileSync(path.join(root, "package-lock.json"), "utf8")) as Lock;
  const found: Licence[] = [];
  for (const [place, one] of Object.entries(lock.packages)) {
    const name = place.slice(place.lastIndexOf(SEPARATOR) + SEPARATOR.length);
    if (place === "" || one.dev || TYPES.test(name)) {
      continue;
    }
    const licence = one.license ?? "unknown";
    if (!licence.split(/ OR |[()]/).some((part) => ALLOWED.includes(part.trim()))) {
      throw new Error(`the licence of ${name} is ${licence}, which is not allowed`);
    }
    found.push({ name, version: one.version ?? "", licence });
  }
  if (found.length > PACKAGES_MAX) {
    throw new Error(`the page has ${found.length} packages; at most ${PACKAGES_MAX} are allowed`);
  }
  return found.sort((a, b) => (a.name < b.name ? -1 : 1));
}

export function licencesPlugin(): Plugin {
  const root = import.meta.dirname;
  return {
    name: "licences",
    generateBundle() {
      const source = JSON.stringify(licences(root));
      this.emitFile({ type: "asset", fileName: "licences.json", source });
    },
    configureServer(server) {
      server.middlewares.use("/licences.json", (_request, response) => {
        response.end(JSON.stringify(licences(root)));
      });
    },
  };
}
