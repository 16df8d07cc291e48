/** Attempts to deliver messages of a webhook. */

import { notifications } from "@mantine/notifications";
import { useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { problemOf } from "../../../api/problem";
import { ActionButton } from "../../../ui/ActionButton";
import { type Column, DataTable } from "../../../ui/DataTable";
import { EmptyState } from "../../../ui/EmptyState";
import { formatCount, sentence, shortId } from "../../../ui/format";
import { IconTest } from "../../../ui/icons";
import { LinkTo } from "../../../ui/LinkTo";
import { Moment } from "../../../ui/Quantity";
import { type Tone, ToneBadge } from "../../../ui/StateBadge";
import { type Delivery, kindWord } from "./queries";
import classes from "./WebhooksPage.module.css";

const RESULT: Record<string, Tone> = { delivered: "ok", failed: "warn", "given-up": "bad" };

/** Returns the outcome of an attempt in words. */
export function resultWords(delivery: Delivery): string {
  const status = delivery.status === undefined ? "" : ` (status ${delivery.status})`;
  const took = `in ${formatCount(delivery.took_ms)} ms`;
  return delivery.result === "delivered"
    ? `delivered ${took}${status}`
    : `${delivery.error ?? delivery.result.replace("-", " ")}${status}`;
}

export function DeliveryTable({ deliveries }: { deliveries: Delivery[] }) {
  return (
    <DataTable
      label="Deliveries"
      rows={deliveries}
      rowKey={(delivery) => `${delivery.id} ${delivery.attempt} ${delivery.at}`}
      columns={COLUMNS}
      empty={
        <EmptyState icon={IconTest} title="Nothing was delivered yet">
          Test it: a message is sent now, and its result is shown.
        </EmptyState>
      }
    />
  );
}

const COLUMNS: Column<Delivery>[] = [
  { key: "at", header: "Time", width: "120px", cell: (delivery) => <Moment at={delivery.at} /> },
  {
    key: "kind",
    header: "Event",
    card: "title",
    width: "160px",
    cell: (delivery) => (
      <span>
        {kindWord(delivery.kind)}
        {delivery.transfer !== undefined && (
          <>
            : <LinkTo to={`/transfers/${delivery.transfer}`}>{shortId(delivery.transfer)}</LinkTo>
          </>
        )}
      </span>
    ),
  },
  {
    key: "result",
    header: "Result",
    cell: (delivery) => (
      <span>
        <ToneBadge
          tone={RESULT[delivery.result] ?? "dim"}
          label={delivery.result.replace("-", " ")}
        />
        {delivery.error !== undefined && (
          <span className={classes.error}>{sentence(delivery.error)}</span>
        )}
      </span>
    ),
  },
  {
    key: "status",
    header: "Status",
    align: "right",
    width: "80px",
    cell: (delivery) => delivery.status ?? "–",
  },
  {
    key: "took",
    header: "Took",
    align: "right",
    width: "90px",
    cell: (delivery) => `${formatCount(delivery.took_ms)} ms`,
  },
  {
    key: "attempt",
    header: "Attempt",
    align: "right",
    width: "80px",
    cell: (delivery) => formatCount(delivery.attempt),
  },
  {
    key: "actions",
    header: "Actions",
    quiet: true,
    card: "plain",
    width: "120px",
    cell: (delivery) => delivery.transfer !== undefined && <Redeliver delivery={delivery} />,
  },
];

function Redeliver({ delivery }: { delivery: Delivery }) {
  const queries = useQueryClient();
  const send = async () => {
    const params = { path: { name: delivery.webhook, id: delivery.id } };
    try {
      const call = api.POST("/api/v1/webhooks/{name}/deliveries/{id}/redeliver", { params });
      notifications.show({ message: sentence(resultWords(await unwrap(call))) });
    } catch (error) {
      const { title, detail } = problemOf(error);
      notifications.show({ color: "red", title, message: detail });
    }
    void queries.invalidateQueries({ queryKey: keys.webhooks });
  };
  return (
    <div className="cell-actions">
      <ActionButton size="compact-sm" variant="default" onClick={() => void send()}>
        Deliver again
      </ActionButton>
    </div>
  );
}
