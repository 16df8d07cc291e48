/** Paths within stores, as the API writes them, and links to them. */

/** Returns the path of an entry of a directory. */
export function below(path: string, name: string): string {
  return path === "" ? name : `${path}/${name}`;
}

/** Returns the directory above; null at the root of the store. */
export function above(path: string): string | null {
  if (path === "") {
    return null;
  }
  const cut = path.lastIndexOf("/");
  return cut < 0 ? "" : path.slice(0, cut);
}

export interface Crumb {
  name: string;
  path: string;
}

/** Returns the directories that lead to a path, the root of the store left out. */
export function crumbs(path: string): Crumb[] {
  const names = path === "" ? [] : path.split("/");
  return names.map((name, index) => ({ name, path: names.slice(0, index + 1).join("/") }));
}

/** Returns the address of a directory in the browser of stores. */
export function browseAt(site: string, store: string, path: string): string {
  const query = path === "" ? "" : `?${new URLSearchParams({ path })}`;
  return `/stores/${site}/${store}${query}`;
}

/** Returns the address of a new transfer of entries of a directory. */
export function transferOf(site: string, store: string, path: string, names: string[]): string {
  const query = new URLSearchParams();
  query.set("source", `${site}:${store}${path === "" ? "" : `/${path}`}`);
  for (const name of names) {
    query.append("item", name);
  }
  return `/new?${query}`;
}
