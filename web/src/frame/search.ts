/** Finds what a search is for. */

import type { PageRoute } from "../routes";
import { IconRight } from "../ui/icons";
import type { Found } from "./SearchDialog";

/** Most results of a kind. */
export const FOUND_MAX = 8;

/** Returns whether each word of a search is somewhere in a text. */
export function fits(search: string, text: string): boolean {
  const low = text.toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => low.includes(word));
}

/** Pages, as the menu has them. */
export function foundPages(routes: PageRoute[], search: string): Found[] {
  return routes
    .filter((route) => route.menu && fits(search, route.menu.label))
    .map((route) => ({
      key: `page ${route.path}`,
      label: route.menu?.label ?? route.path,
      note: "Page",
      to: route.path,
      icon: route.menu?.icon ?? IconRight,
    }));
}

export function useFound(routes: PageRoute[], search: string): Found[] {
  return foundPages(routes, search.trim());
}
