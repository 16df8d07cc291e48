import type { PageRoute } from "../../routes";
import { DevicePage } from "./DevicePage";

/** Approval of programs. The log-in itself lies outside of the frame. */
export const accessRoutes: PageRoute[] = [{ path: "/device", page: DevicePage }];
