import { expect, test, vi } from "vitest";
import type { User } from "./UsersPage";
import { unchanged } from "./unchanged";

const site = vi.hoisted(() => ({ user: {} as object }));
vi.mock("../../../api/client", () => ({
  api: {
    GET: async () => ({
      data: site.user,
      response: new Response(null, { headers: { etag: '"7"' } }),
    }),
  },
  unwrap: async (call: Promise<{ data: unknown }>) => (await call).data,
}));

test("Promise: a change of a user meets no change of somebody else", async () => {
  const shown = { name: "anna", role: "user", disabled: false, grants: {} } as unknown as User;
  site.user = { ...shown, tokens: 3 };
  expect(await unchanged(shown)).toEqual({ "If-Match": '"7"' });
  for (const change of [{ role: "viewer" }, { disabled: true }, { account: "am17" }]) {
    site.user = { ...shown, ...change };
    await expect(unchanged(shown)).rejects.toThrow();
  }
});
