import { type PageRoute, pageOf } from "../../routes";
import { IconEvents, IconPeers, IconQueue, IconSites, IconStores } from "../../ui/icons";

/** The site: stores, sites, peers, queue, events. */
export const siteRoutes: PageRoute[] = [
  {
    path: "/stores",
    page: pageOf(() => import("./stores/StoresPage"), "StoresPage"),
    right: "see-site",
    menu: { label: "Stores", icon: IconStores, group: "site", order: 0 },
  },
  {
    path: "/stores/:site/:store",
    page: pageOf(() => import("./stores/BrowserPage"), "BrowserPage"),
    right: "list-stores",
  },
  {
    path: "/sites",
    page: pageOf(() => import("./sites/SitesPage"), "SitesPage"),
    right: "see-site",
    menu: { label: "Sites", icon: IconSites, group: "site", order: 10 },
  },
  {
    path: "/sites/:name",
    page: pageOf(() => import("./sites/SitePage"), "SitePage"),
    right: "see-site",
  },
  {
    path: "/peers",
    page: pageOf(() => import("./peers/PeersPage"), "PeersPage"),
    right: "see-site",
    menu: { label: "Peers", icon: IconPeers, group: "site", order: 20 },
  },
  {
    path: "/queue",
    page: pageOf(() => import("./queue/QueuePage"), "QueuePage"),
    right: "operate",
    menu: { label: "Queue", icon: IconQueue, group: "site", order: 30 },
  },
  {
    path: "/events",
    page: pageOf(() => import("./events/EventsPage"), "EventsPage"),
    right: "see-site",
    menu: { label: "Events", icon: IconEvents, group: "site", order: 40 },
  },
];
