/** Failed items, grouped by what went wrong, each group with what to do about it. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Schemas } from "../../../api/client";
import { readLines } from "../../../api/lines";
import { problemOf } from "../../../api/problem";
import { useRight } from "../../../api/queries";
import { at } from "../../../base";
import { ActionButton } from "../../../ui/ActionButton";
import { CopyButton } from "../../../ui/Copy";
import { DataTable } from "../../../ui/DataTable";
import { EmptyState } from "../../../ui/EmptyState";
import { formatCount } from "../../../ui/format";
import { IconDone, IconDownload, IconFailed, IconRetry } from "../../../ui/icons";
import { Loaded } from "../../../ui/Loaded";
import { Panel } from "../../../ui/Panel";
import { actionsOf, useSteer } from "../steer";
import classes from "./FailuresTab.module.css";
import { isEnded, type TransferView } from "./useTransfer";
import { failureWords } from "./words";

type FailedItem = Schemas["FailedItem"];

/** Items that are kept of each group; the list to download has all of them. */
const KEPT_MAX = 20_000;
/** Items of a group that are shown at first. */
const SHOWN = 10;

interface Group {
  code: string;
  count: number;
  items: FailedItem[];
}

async function readFailures(id: string, signal: AbortSignal): Promise<Group[]> {
  const groups = new Map<string, Group>();
  await readLines(`/api/v1/transfers/${id}/failures`, { signal }, (line) => {
    const item = JSON.parse(line) as FailedItem;
    const group = groups.get(item.code) ?? { code: item.code, count: 0, items: [] };
    groups.set(item.code, group);
    group.count += 1;
    if (group.items.length < KEPT_MAX) {
      group.items.push(item);
    }
  });
  return [...groups.values()].sort((a, b) => b.count - a.count);
}

export function FailuresTab({ view }: { view: TransferView }) {
  const count = Math.max(view.failures.count, isEnded(view) ? 0 : view.progress.errors);
  const query = useQuery({
    queryKey: ["failures", view.id, view.attempt, isEnded(view)],
    // The whole list is read each time: a long one seldom, by 0.1 ms for each item.
    refetchInterval: isEnded(view) ? false : Math.max(15_000, count / 10),
    refetchOnWindowFocus: false,
    staleTime: 10_000,
    gcTime: 10_000,
    queryFn: ({ signal }) =>
      readFailures(view.id, signal).catch((error) => {
        // A transfer that has listed nothing yet has no list.
        if (problemOf(error).status === 404) {
          return [];
        }
        throw error;
      }),
    enabled: count > 0,
    placeholderData: (before) => before,
  });
  if (count === 0) {
    return view.state === "failed" ? <FailedAsWhole view={view} /> : <NoFailure view={view} />;
  }
  return (
    <Loaded query={query}>
      {(groups) => (
        <>
          <Head view={view} count={count} />
          {groups.length === 0 && (
            <p className="dim">The list of failed items is not written yet.</p>
          )}
          {groups.map((group) => (
            <FailureGroup key={group.code} group={group} />
          ))}
        </>
      )}
    </Loaded>
  );
}

function NoFailure({ view }: { view: TransferView }) {
  return (
    <Panel title="Failures" flush>
      <EmptyState
        icon={IconDone}
        title={view.state === "done" ? "Nothing failed" : "Nothing has failed so far"}
      >
        Items that cannot be moved are listed here, with what to do about them.
      </EmptyState>
    </Panel>
  );
}

/** The transfer ended before it got to its items. */
function FailedAsWhole({ view }: { view: TransferView }) {
  return (
    <Panel title="The transfer failed as a whole" actions={<RetryButton view={view} count={0} />}>
      <p className={classes.whole}>
        <IconFailed size={18} aria-hidden />
        {view.reason || "No reason is known."}
      </p>
      <p className="dim">No single item failed. Mend the cause, then retry: it begins again.</p>
    </Panel>
  );
}

function RetryButton({ view, count }: { view: TransferView; count: number }) {
  const maySteer = useRight("steer");
  const steer = useSteer();
  if (!maySteer || !actionsOf(view).includes("retry")) {
    return null;
  }
  const label =
    count === 0 ? "Retry" : count === 1 ? "Retry this one" : `Retry these ${formatCount(count)}`;
  return (
    <ActionButton
      size="compact-md"
      leftSection={<IconRetry size={16} />}
      onClick={() => steer("retry", [view])}
    >
      {label}
    </ActionButton>
  );
}

function Head({ view, count }: { view: TransferView; count: number }) {
  return (
    <div className={classes.head}>
      <p>
        <b>
          {formatCount(count)} {count === 1 ? "item" : "items"} failed.
        </b>{" "}
        Retry moves only what is missing.
      </p>
      <span className={classes.actions}>
        <a
          className={classes.download}
          href={at(`/api/v1/transfers/${view.id}/failures`)}
          download={`failures-${view.id.slice(0, 8)}.jsonl`}
        >
          <IconDownload size={16} aria-hidden /> Download the list
        </a>
        <RetryButton view={view} count={count} />
      </span>
    </div>
  );
}

function FailureGroup({ group }: { group: Group }) {
  const [all, setAll] = useState(false);
  const { title, advice } = failureWords(group.code);
  const items = all ? group.items : group.items.slice(0, SHOWN);
  const hidden = group.items.length - items.length;
  return (
    <div className={classes.group}>
      <Panel
        title={title}
        aside={`${formatCount(group.count)} ${group.count === 1 ? "item" : "items"}`}
        flush
      >
        <p className={classes.advice}>{advice}</p>
        <DataTable
          label={title}
          rows={items}
          rowKey={(item) => item.path}
          rowHeight={40}
          columns={[
            {
              key: "path",
              header: "Item",
              width: "44%",
              card: "title",
              cell: (item) => <span className={classes.path}>{item.path || "."}</span>,
            },
            {
              key: "message",
              header: "Why",
              card: "plain",
              cell: (item) => <span className={classes.why}>{item.message}</span>,
            },
            {
              key: "copy",
              header: "Copy",
              quiet: true,
              width: "52px",
              align: "right",
              card: "corner",
              cell: (item) => <CopyButton text={item.path} label={`Copy ${item.path}`} />,
            },
          ]}
        />
        {hidden > 0 && (
          <button type="button" className={classes.more} onClick={() => setAll(true)}>
            Show {formatCount(hidden)} more
          </button>
        )}
        {all && group.count > group.items.length && (
          <p className={classes.rest}>
            {formatCount(group.count - group.items.length)} more are in the list to download.
          </p>
        )}
      </Panel>
    </div>
  );
}
