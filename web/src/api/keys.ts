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
  queue: ["queue"],
  transfers: ["transfers"],
  transferList: (filter: object) => ["transfers", "list", filter],
  transfer: (id: string) => ["transfers", "one", id],
  attention: ["transfers", "attention"],
} as const;
