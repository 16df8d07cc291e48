import type { PageRoute } from "../../routes";
import { IconAbout } from "../../ui/icons";
import { AboutPage } from "./AboutPage";

export const aboutRoutes: PageRoute[] = [
  {
    path: "/about",
    page: AboutPage,
    menu: { label: "About", icon: IconAbout, group: "admin", order: 100 },
  },
];
