/** Words for what the API names by codes. A code of a later release is shown as it is. */

const SCOPES: Record<string, string> = {
  "site:read": "See the site: its peers, stores, pairings and events",
  "transfers:read": "See your transfers",
  "transfers:write": "Submit and steer your transfers",
  "stores:list": "List what is in stores",
  "site:operate": "Operate the queue and the peers",
  "site:admin": "Manage users, pairings and keys",
  "audit:read": "Read the audit log",
  "metrics:read": "Read metrics",
};

export function scopeWords(scope: string): string {
  return SCOPES[scope] ?? scope;
}

const ROLES: Record<string, string> = {
  viewer: "sees the site and its transfers",
  user: "submits and steers own transfers",
  operator: "steers all transfers, and operates the queue and the peers",
  administrator: "does everything, users and pairings too",
};

export function roleWords(role: string): string {
  return ROLES[role] ?? role;
}
