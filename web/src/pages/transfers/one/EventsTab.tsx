/** What has happened to a transfer, and who asked for what. */

import { useQuery } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { useMe } from "../../../api/queries";
import { DataTable } from "../../../ui/DataTable";
import { EmptyState } from "../../../ui/EmptyState";
import { sentence } from "../../../ui/format";
import { IconEvents } from "../../../ui/icons";
import { Loaded } from "../../../ui/Loaded";
import { Panel } from "../../../ui/Panel";
import { Moment } from "../../../ui/Quantity";
import { ToneBadge } from "../../../ui/StateBadge";
import classes from "./EventsTab.module.css";
import type { TransferView } from "./useTransfer";

interface Line {
  key: string;
  at: string;
  what: string;
  text: string;
  who: string;
}

const ASKED: Record<string, string> = {
  submit_transfer: "submitted the transfer",
  pause_transfer: "paused it",
  resume_transfer: "resumed it",
  cancel_transfer: "cancelled it",
  retry_transfer: "retried it",
  change_transfer: "changed it",
  set_deadline: "set a deadline",
  remove_deadline: "took the deadline away",
};

/** Requests that only look are no news. */
function isNews(entry: Schemas["AuditEntry"]): boolean {
  return !entry.request.startsWith("GET ");
}

function linesOf(
  events: readonly Schemas["SiteEventView"][],
  audit: readonly Schemas["AuditEntry"][],
): Line[] {
  const told = events.map((event, index) => ({
    key: `event ${event.at} ${index}`,
    at: event.at,
    what: event.kind.replaceAll(/[-_]/g, " "),
    text: sentence(event.text),
    who: event.peer,
  }));
  const asked = audit.filter(isNews).map((entry, index) => {
    const result = entry.result === "ok" || entry.status < 400 ? "" : ` (refused: ${entry.status})`;
    return {
      key: `audit ${entry.at} ${index}`,
      at: entry.at,
      what: "request",
      text: `${entry.actor} ${ASKED[entry.action] ?? entry.action.replaceAll("_", " ")}${result}`,
      who: entry.actor,
    };
  });
  return [...told, ...asked].sort((a, b) => b.at.localeCompare(a.at));
}

export function EventsTab({ view }: { view: TransferView }) {
  const { id } = view;
  const rights = useMe().data?.rights;
  const events = useQuery({
    queryKey: [...keys.transfer(id), "events"],
    queryFn: ({ signal }) =>
      unwrap(
        api.GET("/api/v1/site/events", {
          params: { query: { transfer: id, limit: 500 } },
          signal,
        }),
      ),
    refetchInterval: 5_000,
  });
  const audit = useQuery({
    queryKey: [...keys.transfer(id), "audit"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/v1/audit", { params: { query: { object: id, limit: 200 } }, signal })),
    refetchInterval: 5_000,
  });
  const isWhole = rights?.includes("audit") === true;
  return (
    <Panel title="Events" aside="newest first" flush>
      <Loaded query={events}>
        {(page) => (
          <DataTable
            label="Events of the transfer"
            rows={linesOf(page.items, audit.data?.items ?? [])}
            rowKey={(line) => line.key}
            empty={
              <EmptyState icon={IconEvents} title="Nothing has happened yet">
                Attempts, waits, failures and what people asked for are listed here.
              </EmptyState>
            }
            columns={[
              {
                key: "at",
                header: "Time",
                width: "200px",
                cell: (line) => <Moment at={line.at} exact />,
              },
              {
                key: "what",
                header: "Kind",
                width: "150px",
                cell: (line) => (
                  <ToneBadge tone={line.what === "request" ? "accent" : "dim"} label={line.what} />
                ),
              },
              {
                key: "text",
                header: "What happened",
                card: "plain",
                cell: (line) => <span className={classes.text}>{line.text}</span>,
              },
              { key: "who", header: "By", cell: (line) => line.who },
            ]}
          />
        )}
      </Loaded>
      {!isWhole && (
        <p className={classes.note}>
          Of what people asked for, your own requests are shown. Administrators see all.
        </p>
      )}
    </Panel>
  );
}
