import type { PageRoute } from "../../routes";

/** The site: stores, sites, peers, queue, events, users, webhooks, audit, settings. */
export const siteRoutes: PageRoute[] = [];
