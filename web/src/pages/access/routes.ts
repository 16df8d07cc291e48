import { type PageRoute, pageOf } from "../../routes";

/** Approval of programs. The log-in itself lies outside of the frame. */
export const accessRoutes: PageRoute[] = [
  { path: "/device", page: pageOf(() => import("./DevicePage"), "DevicePage") },
];
