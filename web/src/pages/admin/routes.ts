import type { PageRoute } from "../../routes";
import { IconAudit, IconSettings, IconUsers, IconWebhooks } from "../../ui/icons";
import { AccountPage } from "./account/AccountPage";
import { AuditPage } from "./audit/AuditPage";
import { SettingsPage } from "./settings/SettingsPage";
import { UsersPage } from "./users/UsersPage";
import { WebhookPage } from "./webhooks/WebhookPage";
import { WebhooksPage } from "./webhooks/WebhooksPage";

/** Who may use the site, whom it tells, and how it is set. */
export const adminRoutes: PageRoute[] = [
  {
    path: "/users",
    page: UsersPage,
    right: "administer",
    menu: { label: "Users", icon: IconUsers, group: "admin", order: 0 },
  },
  { path: "/account", page: AccountPage, right: "own" },
  {
    path: "/webhooks",
    page: WebhooksPage,
    right: "operate",
    menu: { label: "Webhooks", icon: IconWebhooks, group: "admin", order: 10 },
  },
  { path: "/webhooks/:name", page: WebhookPage, right: "operate" },
  {
    path: "/audit",
    page: AuditPage,
    right: "audit",
    menu: { label: "Audit", icon: IconAudit, group: "admin", order: 20 },
  },
  {
    path: "/settings",
    page: SettingsPage,
    right: "operate",
    menu: { label: "Settings", icon: IconSettings, group: "admin", order: 30 },
  },
];
