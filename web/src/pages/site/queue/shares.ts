/** What each user has used lately, beside what its weight is worth. */

import type { Schemas } from "../../../api/client";

type User = Schemas["QueueUserView"];

export interface Share {
  user: string;
  weight: number;
  running: number;
  waiting: number;
  served: number;
  expected: number;
  /** Part of all that was served lately, between 0 and 1. */
  used: number;
  /** Part that the weight is worth, between 0 and 1. */
  due: number;
}

/** Returns the shares, the greatest use first. */
export function sharesOf(users: readonly User[]): Share[] {
  const served = users.reduce((sum, user) => sum + user.served_bytes, 0);
  const weights = users.reduce((sum, user) => sum + user.weight, 0);
  return users
    .map((user) => ({
      user: user.user,
      weight: user.weight,
      running: user.running,
      waiting: user.waiting,
      served: user.served_bytes,
      expected: user.expected_bytes,
      used: served > 0 ? user.served_bytes / served : 0,
      due: weights > 0 ? user.weight / weights : 0,
    }))
    .sort((a, b) => b.used - a.used || a.user.localeCompare(b.user));
}
