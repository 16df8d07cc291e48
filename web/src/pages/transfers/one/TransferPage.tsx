/** One transfer: its state in a sentence, its figures, and everything about it in tabs. */

import { Button, Tabs } from "@mantine/core";
import { type ComponentType, lazy, Suspense } from "react";
import { useLocation, useParams, useSearch } from "wouter";
import { problemOf } from "../../../api/problem";
import { useRight } from "../../../api/queries";
import { settledOf, shareOf } from "../../../api/settled";
import { ActionButton } from "../../../ui/ActionButton";
import { EmptyState } from "../../../ui/EmptyState";
import { formatCount, formatShare, shortId } from "../../../ui/format";
import { IconNew, IconTransfers } from "../../../ui/icons";
import { LinkTo, useReaches } from "../../../ui/LinkTo";
import { Loaded, Loading } from "../../../ui/Loaded";
import { FromTo } from "../../../ui/Location";
import { PageHeader } from "../../../ui/PageHeader";
import { Bytes, Count, Duration, Moment, Rate } from "../../../ui/Quantity";
import { StateBadge } from "../../../ui/StateBadge";
import { nameOf } from "../../overview/attention";
import { ACTION_ICONS, ActionMenu } from "../ActionMenu";
import { actionLabel, actionsOf, useSteer } from "../steer";
import { EventsTab } from "./EventsTab";
import { FailuresTab } from "./FailuresTab";
import { OptionsTab } from "./OptionsTab";
import { ProgressTab } from "./ProgressTab";
import { ProofTab } from "./ProofTab";
import classes from "./TransferPage.module.css";
import { isEnded, type TransferView, useFreshView, useTransferQuery } from "./useTransfer";
import { stateSentence, waitAdvice } from "./words";

interface TabProps {
  view: TransferView;
}

/** Loaded when it is shown: few look at it. */
const StatisticsTab = lazy(() =>
  import("./StatisticsTab").then((tab) => ({ default: tab.StatisticsTab })),
);

const TABS: [string, string, ComponentType<TabProps>][] = [
  ["progress", "Progress", ProgressTab],
  ["statistics", "Statistics", StatisticsTab],
  ["failures", "Failures", FailuresTab],
  ["events", "Events", EventsTab],
  ["options", "Options", OptionsTab],
  ["proof", "Proof", ProofTab],
];

export function TransferPage() {
  const { id = "" } = useParams<{ id: string }>();
  const query = useTransferQuery(id);
  if (query.data === undefined) {
    const isUnknown = query.isError && problemOf(query.error).status === 404;
    return (
      <>
        <PageHeader
          title={`Transfer ${shortId(id)}`}
          above={<LinkTo to="/transfers">Transfers</LinkTo>}
        />
        {isUnknown ? (
          <EmptyState
            icon={IconTransfers}
            title="There is no such transfer that you may see"
            action={<LinkTo to="/transfers">All transfers</LinkTo>}
          >
            No transfer of this site begins with {id}, or it is not one of yours.
          </EmptyState>
        ) : (
          <Loaded query={query} lines={6}>
            {() => null}
          </Loaded>
        )}
      </>
    );
  }
  return <Shown fetched={query.data} />;
}

function Shown({ fetched }: { fetched: TransferView }) {
  const view = useFreshView(fetched);
  const search = new URLSearchParams(useSearch());
  const [path, navigate] = useLocation();
  const asked = search.get("tab");
  const tab = TABS.some(([name]) => name === asked) ? asked : "progress";
  const failed = Math.max(view.failures.count, isEnded(view) ? 0 : view.progress.errors);
  return (
    <>
      <PageHeader
        title={nameOf(view)}
        above={<LinkTo to="/transfers">Transfers</LinkTo>}
        subtitle={
          <span className={classes.way}>
            <FromTo source={view.source} target={view.target} />
          </span>
        }
        actions={<Actions view={view} />}
      />
      <div className={classes.state}>
        <StateBadge state={view.state} />
        <p className={classes.sentence} role="status">
          {stateSentence(view)}
        </p>
        <p className={classes.who}>
          {view.owner ? `${view.owner} · ` : ""}submitted <Moment at={view.created_at} />
          {view.ended_at !== undefined && (
            <>
              {" · "}ended <Moment at={view.ended_at} />
            </>
          )}
        </p>
      </div>
      <Wait view={view} />
      <Figures view={view} />
      <Tabs
        value={tab}
        onChange={(next) =>
          navigate(next === "progress" ? path : `${path}?tab=${next}`, { replace: true })
        }
        keepMounted={false}
      >
        <Tabs.List className={classes.tabs}>
          {TABS.map(([name, label]) => (
            <Tabs.Tab key={name} value={name}>
              {label}
              {name === "failures" && failed > 0 && (
                <span className={classes.count}>{formatCount(failed)}</span>
              )}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {TABS.map(([name, , Tab]) => (
          <Tabs.Panel key={name} value={name}>
            <Suspense fallback={<Loading lines={6} />}>
              <Tab view={view} />
            </Suspense>
          </Tabs.Panel>
        ))}
      </Tabs>
    </>
  );
}

/** What to do about a wait, beside its sentence. */
function Wait({ view }: { view: TransferView }) {
  const advice = view.waiting && waitAdvice(view.waiting.code);
  const until = view.waiting?.until;
  if ((advice === undefined && until === undefined) || isEnded(view)) {
    return null;
  }
  return (
    <p className={classes.advice}>
      {advice}{" "}
      {until !== undefined && (
        <>
          The wait ends <Moment at={until} />.
        </>
      )}
    </p>
  );
}

function Actions({ view }: { view: TransferView }) {
  const steer = useSteer();
  const maySteer = useRight("steer");
  const reaches = useReaches();
  const [, navigate] = useLocation();
  const actions = maySteer ? actionsOf(view) : [];
  return (
    <>
      {actions.map((action) => {
        const Icon = ACTION_ICONS[action];
        return (
          <ActionButton
            key={action}
            variant={action === "cancel" ? "outline" : "default"}
            color={action === "cancel" ? "red" : undefined}
            leftSection={<Icon size={17} />}
            onClick={() => steer(action, [view])}
          >
            {actionLabel(action, view)}
          </ActionButton>
        );
      })}
      {isEnded(view) && reaches("/new") && (
        <Button
          variant="default"
          leftSection={<IconNew size={17} />}
          onClick={() => navigate(`/new?again=${view.id}`)}
        >
          Submit again
        </Button>
      )}
      <ActionMenu transfer={view} />
    </>
  );
}

function Figures({ view }: { view: TransferView }) {
  const { progress, state } = view;
  const { bytes, bytes_found, files, files_found, rate_bits_per_s, seconds } = progress;
  const running = state === "running";
  const share = shareOf(progress, state);
  const left = (bytes_found - settledOf(progress)) * 8;
  const isKnown = running && progress.scan_complete && rate_bits_per_s > 0;
  const eta = isKnown ? left / rate_bits_per_s : undefined;
  const failed = Math.max(view.failures.count, progress.errors);
  const mean = seconds > 0 ? (bytes * 8) / seconds : 0;
  return (
    <dl className={classes.figures}>
      <div>
        <dt>Done</dt>
        <dd>{share === null ? (state === "done" ? "all" : "–") : formatShare(share)}</dd>
        <dd className={classes.note}>
          <Bytes value={settledOf(progress)} /> of {!progress.scan_complete && "at least "}
          <Bytes value={bytes_found} />
        </dd>
      </div>
      <div>
        <dt>Files</dt>
        <dd>
          <Count value={files} />
        </dd>
        <dd className={classes.note}>
          of {!progress.scan_complete && "at least "}
          <Count value={files_found} />
        </dd>
      </div>
      <div>
        <dt>{running ? "Rate" : "Mean rate"}</dt>
        <dd>{running || mean > 0 ? <Rate value={running ? rate_bits_per_s : mean} /> : "–"}</dd>
        <dd className={classes.note}>
          {progress.rate_max_bits_per_s > 0 && (
            <>
              peak <Rate value={progress.rate_max_bits_per_s} />
            </>
          )}
        </dd>
      </div>
      <div>
        <dt>{running ? "Left" : "Took"}</dt>
        <dd>
          {running ? (
            eta === undefined ? (
              "–"
            ) : (
              <Duration seconds={eta} />
            )
          ) : seconds > 0 ? (
            <Duration seconds={Math.max(1, seconds)} />
          ) : (
            "–"
          )}
        </dd>
        <dd className={classes.note}>
          attempt {view.attempt}
          {running && (
            <>
              , <Duration seconds={seconds} /> so far
            </>
          )}
        </dd>
      </div>
      <div data-bad={failed > 0 || undefined}>
        <dt>Failed</dt>
        <dd>
          <Count value={failed} />
        </dd>
        <dd className={classes.note}>{failed === 1 ? "item" : "items"}</dd>
      </div>
    </dl>
  );
}
