/** Addresses that the site tells of the end of transfers. */

import { Button } from "@mantine/core";
import { useState } from "react";
import { DataTable } from "../../../ui/DataTable";
import { EmptyState } from "../../../ui/EmptyState";
import { formatCount } from "../../../ui/format";
import { IconAdd, IconWebhooks } from "../../../ui/icons";
import { LinkTo } from "../../../ui/LinkTo";
import { Loaded } from "../../../ui/Loaded";
import { PageHeader } from "../../../ui/PageHeader";
import { Panel } from "../../../ui/Panel";
import { ToneBadge } from "../../../ui/StateBadge";
import { kindWords, useWebhooks, type Webhook } from "./queries";
import { SecretDialog } from "./SecretDialog";
import { WebhookDialog } from "./WebhookDialog";
import classes from "./WebhooksPage.module.css";

export function WebhooksPage() {
  const webhooks = useWebhooks();
  const [making, setMaking] = useState(false);
  const [secretOf, setSecretOf] = useState<Webhook | null>(null);
  return (
    <>
      <PageHeader
        title="Webhooks"
        subtitle="Addresses that are told when a transfer has ended."
        actions={
          <Button leftSection={<IconAdd size={17} />} onClick={() => setMaking(true)}>
            New webhook
          </Button>
        }
      />
      <Panel title="Webhooks" flush>
        <Loaded query={webhooks}>
          {(list) => (
            <DataTable
              label="Webhooks"
              rows={list.items}
              rowKey={(webhook) => webhook.name}
              empty={
                <EmptyState icon={IconWebhooks} title="No webhook">
                  A webhook tells another program of each transfer that has ended, signed, and at
                  least once. Its address must lie below an entry of <code>allow</code> in the table{" "}
                  <code>[webhook]</code> of the configuration.
                </EmptyState>
              }
              columns={[
                {
                  key: "name",
                  header: "Name",
                  card: "title",
                  cell: (webhook) => (
                    <LinkTo to={`/webhooks/${webhook.name}`} className={classes.name}>
                      {webhook.name}
                    </LinkTo>
                  ),
                },
                {
                  key: "state",
                  header: "State",
                  width: "150px",
                  cell: (webhook) => <WebhookState webhook={webhook} />,
                },
                {
                  key: "url",
                  header: "Address",
                  cell: (webhook) => <span className={classes.url}>{webhook.url}</span>,
                },
                { key: "kinds", header: "Tells of", cell: kindWords },
                {
                  key: "pending",
                  header: "Wait",
                  align: "right",
                  width: "80px",
                  cell: (webhook) => formatCount(webhook.pending),
                },
              ]}
            />
          )}
        </Loaded>
      </Panel>
      <WebhookDialog opened={making} onClose={() => setMaking(false)} onMade={setSecretOf} />
      <SecretDialog webhook={secretOf} onClose={() => setSecretOf(null)} />
    </>
  );
}

export function WebhookState({ webhook }: { webhook: Webhook }) {
  if (webhook.disabled) {
    return <ToneBadge tone="dim" label="off" />;
  }
  return webhook.error === undefined ? (
    <ToneBadge tone="ok" label="no failures" />
  ) : (
    <ToneBadge tone="bad" label="last one failed" />
  );
}
