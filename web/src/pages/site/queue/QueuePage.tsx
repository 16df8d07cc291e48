/** The queue of the site: its order, who uses how much, limits, windows and holds. */

import { Button } from "@mantine/core";
import { useState } from "react";
import { useQueue } from "../../../api/site-queries";
import { formatCount } from "../../../ui/format";
import { IconHold } from "../../../ui/icons";
import { Loaded } from "../../../ui/Loaded";
import { PageHeader } from "../../../ui/PageHeader";
import { Panel } from "../../../ui/Panel";
import { HoldDialog } from "./HoldDialog";
import { HoldList } from "./HoldList";
import { LimitPanel } from "./LimitPanel";
import { OrderTable } from "./OrderTable";
import { ShareList } from "./ShareList";
import { WindowPanel } from "./WindowPanel";

export function QueuePage() {
  const queue = useQueue();
  const [holding, setHolding] = useState(false);
  return (
    <>
      <PageHeader
        title="Queue"
        subtitle={
          queue.data
            ? `${formatCount(queue.data.running)} running, ${formatCount(queue.data.waiting)} waiting`
            : "Transfers of this site that run and wait"
        }
        actions={
          <Button
            variant="default"
            leftSection={<IconHold size={17} />}
            onClick={() => setHolding(true)}
          >
            Hold transfers
          </Button>
        }
      />
      <Loaded query={queue} lines={8}>
        {(view) => (
          <div className="page-parts">
            {view.pause_rules.length > 0 && <HoldList rules={view.pause_rules} />}
            <Panel title="Order" aside={orderWords(view.transfers.length, view.waiting)} flush>
              <OrderTable entries={view.transfers} />
            </Panel>
            <div className="page-halves">
              <ShareList users={view.users} />
              <LimitPanel limits={view.limits} />
            </div>
            <WindowPanel windows={view.windows} />
          </div>
        )}
      </Loaded>
      <HoldDialog opened={holding} onClose={() => setHolding(false)} />
    </>
  );
}

function orderWords(shown: number, waiting: number): string | undefined {
  return shown < waiting ? `the first ${formatCount(shown)} of ${formatCount(waiting)}` : undefined;
}
