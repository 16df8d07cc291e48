import type { PageRoute } from "../../routes";

/** Transfers: the list, a new one, a single one. */
export const transferRoutes: PageRoute[] = [];
