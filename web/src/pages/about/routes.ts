import { type PageRoute, pageOf } from "../../routes";
import { IconAbout } from "../../ui/icons";

export const aboutRoutes: PageRoute[] = [
  {
    path: "/about",
    page: pageOf(() => import("./AboutPage"), "AboutPage"),
    menu: { label: "About", icon: IconAbout, group: "admin", order: 100 },
  },
];
