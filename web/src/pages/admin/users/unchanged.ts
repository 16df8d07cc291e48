/** Changes of a user that meet no change of somebody else. */

import { api, unwrap } from "../../../api/client";
import { ProblemError } from "../../../api/problem";
import type { User } from "./UsersPage";

/**
 * Returns the header of a change of a user that is still as it is shown here.
 *
 * Throws a problem if it was changed meanwhile: a role or a lock would come back.
 */
export async function unchanged(user: User): Promise<{ "If-Match"?: string }> {
  const params = { path: { name: user.name } };
  const answer = await api.GET("/api/v1/users/{name}", { params });
  const now = await unwrap(Promise.resolve(answer));
  const shown = (one: User) => JSON.stringify([one.role, one.disabled, one.account, one.grants]);
  if (shown(now) !== shown(user)) {
    throw new ProblemError({
      type: "about:blank",
      status: 412,
      code: "changed-meanwhile",
      title: `${user.name} was changed meanwhile`,
      cause: "",
      hint: "",
      exit: "temporary",
      retryable: false,
      detail: "Close this dialog, look at the user as it is now, and change it again.",
    });
  }
  const tag = answer.response.headers.get("etag");
  return tag === null ? {} : { "If-Match": tag };
}
