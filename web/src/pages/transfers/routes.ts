import type { PageRoute } from "../../routes";
import { IconNew, IconTransfers } from "../../ui/icons";
import { TransfersPage } from "./list/TransfersPage";
import { NewTransferPage } from "./new/NewTransferPage";
import { TransferPage } from "./one/TransferPage";

/** Transfers: the list, a new one, a single one. */
export const transferRoutes: PageRoute[] = [
  {
    path: "/transfers",
    page: TransfersPage,
    right: "see-transfers",
    menu: { label: "Transfers", icon: IconTransfers, group: "work", order: 10 },
  },
  {
    path: "/new",
    page: NewTransferPage,
    right: "submit",
    menu: { label: "New", icon: IconNew, group: "work", order: 20 },
  },
  { path: "/transfers/:id", page: TransferPage, right: "see-transfers" },
];
