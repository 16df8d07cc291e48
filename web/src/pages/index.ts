/** All pages within the frame. A new one gets its line in the routes of its folder. */

import type { PageRoute } from "../routes";
import { aboutRoutes } from "./about/routes";
import { accessRoutes } from "./access/routes";
import { adminRoutes } from "./admin/routes";
import { overviewRoutes } from "./overview/routes";
import { siteRoutes } from "./site/routes";
import { transferRoutes } from "./transfers/routes";

export const routes: PageRoute[] = [
  ...overviewRoutes,
  ...transferRoutes,
  ...siteRoutes,
  ...adminRoutes,
  ...accessRoutes,
  ...aboutRoutes,
];
