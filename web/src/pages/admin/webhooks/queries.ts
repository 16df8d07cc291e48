/** Webhooks and the attempts to deliver their messages. */

import { useQuery } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";

export type Webhook = Schemas["WebhookView"];
export type Delivery = Schemas["Delivery"];

export function useWebhooks() {
  return useQuery({
    queryKey: keys.webhooks,
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/webhooks", { signal })),
    refetchInterval: 15_000,
  });
}

export function useDeliveries(name: string) {
  return useQuery({
    queryKey: keys.deliveries(name),
    queryFn: ({ signal }) => {
      const path = { name };
      return unwrap(api.GET("/api/v1/webhooks/{name}/deliveries", { params: { path }, signal }));
    },
    refetchInterval: 10_000,
  });
}

const KINDS: Record<string, string> = {
  "transfer.done": "done",
  "transfer.failed": "failed",
  "transfer.cancelled": "cancelled",
  "webhook.test": "test",
};

/** Returns the kind of an event in a word. */
export function kindWord(kind: string): string {
  return KINDS[kind] ?? kind;
}

/** Returns what a webhook tells of, in words. */
export function kindWords({ kinds, user }: Webhook): string {
  const ends =
    kinds === undefined || kinds.length === 0 ? "every end" : kinds.map(kindWord).join(", ");
  return user === undefined ? ends : `${ends}, of ${user}`;
}
