/** A page: its path, who may use it, and its entry in the menu. */

import { type ComponentType, type LazyExoticComponent, lazy } from "react";

/** A page whose program is fetched when it is first shown, or ahead of that. */
export type LazyPage = LazyExoticComponent<ComponentType> & {
  /** Fetches the program; rejects with `PartError`. */
  fetchPart: () => Promise<unknown>;
};

/** The program of a page cannot be fetched: it is of another release, or the daemon is away. */
export class PartError extends Error {
  constructor(cause: unknown) {
    super("A part of the page cannot be loaded.", { cause });
    this.name = "PartError";
  }
}

/** Returns the page that a module exports by `name`. */
export function pageOf<K extends string>(
  load: () => Promise<Record<NoInfer<K>, ComponentType>>,
  name: K,
): LazyPage {
  const fetchPart = async () => {
    const module = await load().catch((error) => {
      throw new PartError(error);
    });
    return { default: module[name] };
  };
  return Object.assign(lazy(fetchPart), { fetchPart });
}

export interface PageRoute {
  /** As wouter has it: `/transfers/:id`. */
  path: string;
  page: LazyPage;
  /** The right without which the page is not offered (docs/api.md). */
  right?: string;
  menu?: MenuEntry;
}

export interface MenuEntry {
  label: string;
  icon: ComponentType<{ size?: number; stroke?: number; "aria-hidden"?: boolean }>;
  /** Part of the menu, from top to bottom. */
  group: "work" | "site" | "admin";
  /** Place within the group, ascending. */
  order: number;
  /** A number beside the label, such as that of running transfers. */
  badge?: ComponentType;
}

/** The right's role, for whoever comes by a link to a page that it may not use. */
export const ROLE_OF_RIGHT: Record<string, string> = {
  submit: "user",
  steer: "user",
  "list-stores": "user",
  operate: "operator",
  administer: "administrator",
  audit: "administrator",
};
