import { type PageRoute, pageOf } from "../../routes";
import { IconNew, IconTransfers } from "../../ui/icons";

/** Transfers: the list, a new one, a single one. */
export const transferRoutes: PageRoute[] = [
  {
    path: "/transfers",
    page: pageOf(() => import("./list/TransfersPage"), "TransfersPage"),
    right: "see-transfers",
    menu: { label: "Transfers", icon: IconTransfers, group: "work", order: 10 },
  },
  {
    path: "/new",
    page: pageOf(() => import("./new/NewTransferPage"), "NewTransferPage"),
    right: "submit",
    menu: { label: "New", icon: IconNew, group: "work", order: 20 },
  },
  {
    path: "/transfers/:id",
    page: pageOf(() => import("./one/TransferPage"), "TransferPage"),
    right: "see-transfers",
  },
];
