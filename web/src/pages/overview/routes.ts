import type { PageRoute } from "../../routes";
import { IconOverview } from "../../ui/icons";
import { OverviewPage } from "./OverviewPage";

export const overviewRoutes: PageRoute[] = [
  {
    path: "/",
    page: OverviewPage,
    right: "see-transfers",
    menu: { label: "Overview", icon: IconOverview, group: "work", order: 0 },
  },
];
