/** The state of the site at a glance: what needs attention, what moves, what waits. */

import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { keys } from "../../api/keys";
import { useLive } from "../../api/live-context";
import {
  useActive,
  useHealth,
  useRight,
  useRunning,
  useSites,
  useStatus,
  useWaiting,
} from "../../api/queries";
import { MoreLink } from "../../ui/LinkTo";
import { Loaded } from "../../ui/Loaded";
import { PageHeader } from "../../ui/PageHeader";
import { Panel } from "../../ui/Panel";
import { useNow } from "../../ui/Quantity";
import { RateChart, type RateLine } from "../../ui/RateChart";
import { AttentionList } from "./AttentionList";
import { attention } from "./attention";
import { FirstSteps } from "./FirstSteps";
import classes from "./OverviewPage.module.css";
import { QueueList } from "./QueueList";
import { RunningList } from "./RunningList";
import { SiteFacts } from "./SiteFacts";

export function OverviewPage() {
  const status = useStatus().data;
  const sites = useSites();
  const running = useRunning();
  const waiting = useWaiting();
  const ended = useQuery({
    queryKey: keys.transferList({ limit: 1 }),
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/v1/transfers", { params: { query: { limit: 1 } }, signal })),
  });
  const isFirstUse =
    ended.data?.items.length === 0 && sites.data?.items.every((site) => site.own) === true;
  return (
    <>
      <PageHeader
        title="Overview"
        tab={status?.site.name}
        subtitle={status && `Site ${status.site.name}, seen from peer ${status.peer}`}
      />
      <div className={classes.grid}>
        <div className={classes.whole}>
          <Attention />
        </div>
        {isFirstUse && (
          <div className={classes.whole}>
            <FirstSteps site={status?.site.name ?? ""} />
          </div>
        )}
        <div className={classes.left}>
          <SiteRate />
          <Panel
            title="Running"
            aside={countOf(running.data)}
            actions={<MoreLink to="/transfers">All transfers</MoreLink>}
            flush
          >
            <Loaded query={running}>{(list) => <RunningList transfers={list.items} />}</Loaded>
          </Panel>
        </div>
        <div className={classes.right}>
          <Panel title="Waiting" aside={countOf(waiting.data)} flush>
            <Loaded query={waiting}>{(list) => <QueueList transfers={list.items} />}</Loaded>
          </Panel>
          <SiteFacts />
        </div>
      </div>
    </>
  );
}

/** The number of transfers in a list, or that there are more. */
function countOf(list: { items: unknown[]; next?: string } | undefined): string | undefined {
  const count = list?.items.length ?? 0;
  return count === 0 ? undefined : `${count}${list?.next === undefined ? "" : "+"}`;
}

function Attention() {
  const health = useHealth();
  const active = useActive();
  const operates = useRight("operate");
  const now = useNow();
  const troubled = useQuery({
    queryKey: keys.attention,
    queryFn: ({ signal }) => {
      const query = { attention: true, limit: 50 };
      return unwrap(api.GET("/api/v1/transfers", { params: { query }, signal }));
    },
    refetchInterval: 15_000,
  });
  const webhooks = useQuery({
    queryKey: ["webhooks"],
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/webhooks", { signal })),
    enabled: operates,
    refetchInterval: 60_000,
  });
  return (
    <Loaded query={health} lines={1}>
      {(view) => (
        <AttentionList
          level={view.level}
          matters={attention({
            findings: view.findings,
            troubled: troubled.data?.items ?? [],
            active: active.data?.items ?? [],
            webhooks: webhooks.data?.items ?? [],
            now,
          })}
        />
      )}
    </Loaded>
  );
}

function SiteRate() {
  const { history } = useLive();
  const lines: RateLine[] = [
    { label: "In", values: history.in, color: "--ps-chart-in" },
    { label: "Out", values: history.out, color: "--ps-chart-out" },
  ];
  if (history.within.some((rate) => rate !== null && rate > 0)) {
    lines.push({ label: "Within", values: history.within, color: "--ps-chart-within" });
  }
  return (
    <Panel title="Rate" aside="last 10 minutes">
      <RateChart label="Rate of the site" at={history.at} lines={lines} span={120} height={190} />
    </Panel>
  );
}
