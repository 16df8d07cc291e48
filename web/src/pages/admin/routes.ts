import { type PageRoute, pageOf } from "../../routes";
import { IconAudit, IconSettings, IconUsers, IconWebhooks } from "../../ui/icons";

/** Who may use the site, whom it tells, and how it is set. */
export const adminRoutes: PageRoute[] = [
  {
    path: "/users",
    page: pageOf(() => import("./users/UsersPage"), "UsersPage"),
    right: "administer",
    menu: { label: "Users", icon: IconUsers, group: "admin", order: 0 },
  },
  {
    path: "/account",
    page: pageOf(() => import("./account/AccountPage"), "AccountPage"),
    right: "own",
  },
  {
    path: "/webhooks",
    page: pageOf(() => import("./webhooks/WebhooksPage"), "WebhooksPage"),
    right: "operate",
    menu: { label: "Webhooks", icon: IconWebhooks, group: "admin", order: 10 },
  },
  {
    path: "/webhooks/:name",
    page: pageOf(() => import("./webhooks/WebhookPage"), "WebhookPage"),
    right: "operate",
  },
  {
    path: "/audit",
    page: pageOf(() => import("./audit/AuditPage"), "AuditPage"),
    right: "audit",
    menu: { label: "Audit", icon: IconAudit, group: "admin", order: 20 },
  },
  {
    path: "/settings",
    page: pageOf(() => import("./settings/SettingsPage"), "SettingsPage"),
    right: "operate",
    menu: { label: "Settings", icon: IconSettings, group: "admin", order: 30 },
  },
];
