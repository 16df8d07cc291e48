import { type PageRoute, pageOf } from "../../routes";
import { IconOverview } from "../../ui/icons";

export const overviewRoutes: PageRoute[] = [
  {
    path: "/",
    page: pageOf(() => import("./OverviewPage"), "OverviewPage"),
    right: "see-transfers",
    menu: { label: "Overview", icon: IconOverview, group: "work", order: 0 },
  },
];
