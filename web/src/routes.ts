/** A page: its path, who may use it, and its entry in the menu. */

import type { ComponentType } from "react";

export interface PageRoute {
  /** As wouter has it: `/transfers/:id`. */
  path: string;
  page: ComponentType;
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
