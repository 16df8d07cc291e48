/**
 * Keys of queries. What begins alike is fetched anew together: `["transfers"]` means all lists and
 * views of transfers.
 */
export const keys = {
  me: ["me"],
  methods: ["auth", "methods"],
  device: (code: string) => ["auth", "device", code],
  status: ["status"],
  health: ["site", "health"],
  history: (filter: object = {}) => ["site", "events", filter],
  sites: ["sites"],
  peers: ["peers"],
  stores: ["stores"],
  siteStores: (site: string) => ["stores", "of", site],
  entries: (place: object) => ["stores", "entries", place],
  queue: ["queue"],
  site: (name: string) => ["sites", "one", name],
  pairedStores: (site: string) => ["stores", "paired", site],
  store: (name: string) => ["stores", "one", name],
  users: ["users"],
  tokens: (user: string) => ["tokens", user],
  sessions: (user: string) => ["sessions", user],
  webhooks: ["webhooks"],
  deliveries: (webhook: string) => ["webhooks", "deliveries", webhook],
  audit: (filter: object) => ["audit", filter],
  settings: ["settings"],
  transfers: ["transfers"],
  transferList: (filter: object) => ["transfers", "list", filter],
  transfer: (id: string) => ["transfers", "one", id],
  /** The parts of a list that were scrolled to: what is older changes by the stream alone. */
  transferParts: (filter: object) => ["transfer-parts", filter],
  failures: (id: string) => ["transfers", "one", id, "failures"],
  receipt: (id: string) => ["transfers", "one", id, "receipt"],
  attention: ["transfers", "attention"],
} as const;
