/** Transfers that wait, in the order in which they would start. */

import { notifications } from "@mantine/notifications";
import { useQueryClient } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { problemOf } from "../../../api/problem";
import { ActionButton } from "../../../ui/ActionButton";
import { DataTable } from "../../../ui/DataTable";
import { EmptyState } from "../../../ui/EmptyState";
import { shortId } from "../../../ui/format";
import { IconQueue, IconUrgent } from "../../../ui/icons";
import { LinkTo } from "../../../ui/LinkTo";
import { FromTo } from "../../../ui/Location";
import { Moment } from "../../../ui/Quantity";
import { ToneBadge } from "../../../ui/StateBadge";
import classes from "./QueuePage.module.css";

type Entry = Schemas["QueueEntry"];

export function OrderTable({ entries }: { entries: Entry[] }) {
  return (
    <DataTable
      label="Transfers that wait"
      rows={entries.map((entry, index) => ({ ...entry, place: index + 1 }))}
      rowKey={(entry) => entry.id}
      empty={
        <EmptyState icon={IconQueue} title="No transfer waits">
          What is submitted now starts at once.
        </EmptyState>
      }
      columns={[
        {
          key: "place",
          header: "Place",
          width: "60px",
          align: "right",
          card: "hidden",
          cell: (entry) => entry.place,
        },
        {
          key: "name",
          header: "Transfer",
          card: "title",
          cell: (entry) => (
            <span>
              <span className={classes.name}>
                <LinkTo to={`/transfers/${entry.id}`}>{entry.label || shortId(entry.id)}</LinkTo>
                {entry.urgent && <ToneBadge tone="accent" icon={IconUrgent} label="urgent" />}
              </span>
              <span className={classes.under}>
                <FromTo source={entry.source} target={entry.target} />
              </span>
            </span>
          ),
        },
        { key: "owner", header: "User", width: "110px", cell: (entry) => entry.owner ?? "–" },
        {
          key: "why",
          header: "Waits for",
          cell: ({ waiting }) => (
            <span>
              <code className={classes.code}>{waiting.code}</code>
              <span className={classes.under}>{waiting.text}</span>
            </span>
          ),
        },
        {
          key: "start",
          header: "Starts about",
          width: "120px",
          cell: (entry) =>
            entry.forecast_start ? <Moment at={entry.forecast_start} /> : "not known",
        },
        {
          key: "end",
          header: "Ends about",
          width: "120px",
          cell: (entry) => <End entry={entry} />,
        },
        {
          key: "actions",
          header: "Actions",
          quiet: true,
          card: "plain",
          width: "130px",
          cell: (entry) => <Actions entry={entry} />,
        },
      ]}
    />
  );
}

function End({ entry }: { entry: Entry }) {
  const { deadline, forecast_end } = entry;
  return (
    <span>
      {forecast_end ? <Moment at={forecast_end} /> : "not known"}
      {deadline && (
        <span className={classes.under}>
          due <Moment at={deadline.at} />, {deadline.promise.replaceAll("_", " ")}
        </span>
      )}
    </span>
  );
}

function Actions({ entry }: { entry: Entry }) {
  const queries = useQueryClient();
  const name = entry.label || shortId(entry.id);
  const turn = async () => {
    const params = { path: { id: entry.id } };
    try {
      await unwrap(
        entry.urgent
          ? api.DELETE("/api/v1/transfers/{id}/urgent", { params })
          : api.PUT("/api/v1/transfers/{id}/urgent", { params }),
      );
      const text = entry.urgent ? "waits for its turn again" : "starts before all others";
      notifications.show({ message: `${name} ${text}.` });
    } catch (error) {
      const { title, detail } = problemOf(error);
      notifications.show({ color: "red", title, message: detail });
    }
    void queries.invalidateQueries({ queryKey: keys.queue });
  };
  return (
    <div className="cell-actions">
      <ActionButton
        size="compact-sm"
        variant="default"
        onClick={() => void turn()}
        aria-label={`${entry.urgent ? "Not urgent" : "Start first"}: ${name}`}
      >
        {entry.urgent ? "Not urgent" : "Start first"}
      </ActionButton>
    </div>
  );
}
