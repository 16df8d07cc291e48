import type { PageRoute } from "../../routes";
import { IconEvents, IconPeers, IconQueue, IconSites, IconStores } from "../../ui/icons";
import { EventsPage } from "./events/EventsPage";
import { PeersPage } from "./peers/PeersPage";
import { QueuePage } from "./queue/QueuePage";
import { SitePage } from "./sites/SitePage";
import { SitesPage } from "./sites/SitesPage";
import { BrowserPage } from "./stores/BrowserPage";
import { StoresPage } from "./stores/StoresPage";

/** The site: stores, sites, peers, queue, events. */
export const siteRoutes: PageRoute[] = [
  {
    path: "/stores",
    page: StoresPage,
    right: "see-site",
    menu: { label: "Stores", icon: IconStores, group: "site", order: 0 },
  },
  { path: "/stores/:site/:store", page: BrowserPage, right: "list-stores" },
  {
    path: "/sites",
    page: SitesPage,
    right: "see-site",
    menu: { label: "Sites", icon: IconSites, group: "site", order: 10 },
  },
  { path: "/sites/:name", page: SitePage, right: "see-site" },
  {
    path: "/peers",
    page: PeersPage,
    right: "see-site",
    menu: { label: "Peers", icon: IconPeers, group: "site", order: 20 },
  },
  {
    path: "/queue",
    page: QueuePage,
    right: "operate",
    menu: { label: "Queue", icon: IconQueue, group: "site", order: 30 },
  },
  {
    path: "/events",
    page: EventsPage,
    right: "see-site",
    menu: { label: "Events", icon: IconEvents, group: "site", order: 40 },
  },
];
