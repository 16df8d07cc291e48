/** A webhook: its settings, its deliveries, and a test of it. */

import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation, useParams } from "wouter";
import { api, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { ActionButton } from "../../../ui/ActionButton";
import { useConfirm } from "../../../ui/ConfirmDialog";
import { EmptyState } from "../../../ui/EmptyState";
import { Facts } from "../../../ui/Facts";
import { formatCount, sentence } from "../../../ui/format";
import { IconTest, IconWebhooks } from "../../../ui/icons";
import { LinkTo } from "../../../ui/LinkTo";
import { Loaded } from "../../../ui/Loaded";
import { PageHeader } from "../../../ui/PageHeader";
import { Panel } from "../../../ui/Panel";
import { ProblemBox } from "../../../ui/ProblemBox";
import { Moment } from "../../../ui/Quantity";
import { DeliveryTable, resultWords } from "./DeliveryTable";
import { kindWords, useDeliveries, useWebhooks, type Webhook } from "./queries";
import { SecretDialog } from "./SecretDialog";
import { WebhookDialog } from "./WebhookDialog";
import { WebhookState } from "./WebhooksPage";
import classes from "./WebhooksPage.module.css";

export function WebhookPage() {
  const { name = "" } = useParams<{ name: string }>();
  const webhooks = useWebhooks();
  const webhook = webhooks.data?.items.find((one) => one.name === name);
  return (
    <Loaded query={webhooks}>
      {() =>
        webhook === undefined ? (
          <>
            <PageHeader title={name} above={<LinkTo to="/webhooks">Webhooks</LinkTo>} />
            <EmptyState icon={IconWebhooks} title={`There is no webhook ${name}`} />
          </>
        ) : (
          <Details webhook={webhook} />
        )
      }
    </Loaded>
  );
}

function Details({ webhook }: { webhook: Webhook }) {
  const deliveries = useDeliveries(webhook.name);
  const [editing, setEditing] = useState(false);
  const [secretOf, setSecretOf] = useState<Webhook | null>(null);
  return (
    <>
      <PageHeader
        title={webhook.name}
        above={<LinkTo to="/webhooks">Webhooks</LinkTo>}
        subtitle="A webhook"
        actions={
          <>
            <TestButton webhook={webhook} />
            <Button variant="default" onClick={() => setEditing(true)}>
              Change
            </Button>
            <Orders webhook={webhook} onSecret={setSecretOf} />
          </>
        }
      />
      <div className="page-parts">
        <Panel title="Settings">
          <Facts
            facts={[
              ["State", <WebhookState key="state" webhook={webhook} />],
              ["Last failure", webhook.error && sentence(webhook.error)],
              ["Address", webhook.url],
              ["Tells of", kindWords(webhook)],
              ["Paths", webhook.include_paths ? "told" : "left out"],
              ["Messages wait", formatCount(webhook.pending)],
              ["Made", <Moment key="made" at={webhook.created_at} exact />],
            ]}
          />
        </Panel>
        <Panel title="Deliveries" aside="of the present controller" flush>
          <Loaded query={deliveries} lines={5}>
            {(list) => <DeliveryTable deliveries={list.items} />}
          </Loaded>
        </Panel>
      </div>
      {editing && <WebhookDialog opened webhook={webhook} onClose={() => setEditing(false)} />}
      <SecretDialog webhook={secretOf} onClose={() => setSecretOf(null)} />
    </>
  );
}

function TestButton({ webhook }: { webhook: Webhook }) {
  const queries = useQueryClient();
  const test = useMutation({
    mutationFn: () => {
      const params = { path: { name: webhook.name } };
      return unwrap(api.POST("/api/v1/webhooks/{name}/test", { params }));
    },
    onSettled: () => void queries.invalidateQueries({ queryKey: keys.webhooks }),
  });
  return (
    <>
      {test.error !== null && <ProblemBox error={test.error} />}
      {test.data && (
        <span role="status" className={test.data.result === "delivered" ? "" : classes.problem}>
          Test: {resultWords(test.data)}
        </span>
      )}
      <ActionButton
        leftSection={<IconTest size={17} />}
        loading={test.isPending}
        onClick={() => test.mutate()}
      >
        Test
      </ActionButton>
    </>
  );
}

interface OrdersProps {
  webhook: Webhook;
  onSecret: (webhook: Webhook) => void;
}

function Orders({ webhook, onSecret }: OrdersProps) {
  const confirm = useConfirm();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const params = { path: { name: webhook.name } };
  const rotate = () =>
    confirm({
      title: `Make another secret for ${webhook.name}?`,
      effect: (
        <p>The former secret signs too for a day: give the receiver the new one until then.</p>
      ),
      verb: "Make another secret",
      keep: "Keep the secret",
      danger: false,
      run: async () => {
        onSecret(await unwrap(api.POST("/api/v1/webhooks/{name}/rotate", { params })));
      },
    });
  const remove = () =>
    confirm({
      title: `Remove ${webhook.name}?`,
      effect: <p>{formatCount(webhook.pending)} messages that wait for it are dropped.</p>,
      verb: `Remove ${webhook.name}`,
      keep: "Keep the webhook",
      run: async () => {
        await unwrap(api.DELETE("/api/v1/webhooks/{name}", { params }));
        void queries.invalidateQueries({ queryKey: keys.webhooks });
        navigate("/webhooks");
      },
    });
  return (
    <>
      <ActionButton variant="default" onClick={rotate}>
        Rotate secret
      </ActionButton>
      <ActionButton variant="default" color="red" onClick={remove}>
        Remove
      </ActionButton>
    </>
  );
}
