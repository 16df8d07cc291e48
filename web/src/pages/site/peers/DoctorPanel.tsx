/** What is wrong with the host that answers: its clock, limits, kernel, cards, stores. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { useStatus } from "../../../api/queries";
import { ActionButton } from "../../../ui/ActionButton";
import { FindingList } from "../../../ui/FindingList";
import { IconOk } from "../../../ui/icons";
import { Loaded } from "../../../ui/Loaded";
import { Panel } from "../../../ui/Panel";
import { Moment } from "../../../ui/Quantity";

export function DoctorPanel() {
  const [asked, setAsked] = useState(false);
  const peer = useStatus().data?.peer;
  const report = useQuery({
    queryKey: keys.doctor,
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/doctor", { signal })),
    enabled: asked,
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
  const shown = asked || report.data !== undefined;
  return (
    <Panel
      title={peer === undefined ? "Doctor" : `Doctor of ${peer}`}
      aside={
        report.dataUpdatedAt > 0 && (
          <>
            examined <Moment at={report.dataUpdatedAt} />
          </>
        )
      }
      flush={shown}
      actions={
        <ActionButton
          size="compact-sm"
          variant="default"
          leftSection={<IconOk size={15} />}
          loading={report.isFetching}
          onClick={() => (shown ? void report.refetch() : setAsked(true))}
        >
          Examine this host
        </ActionButton>
      }
    >
      {shown ? (
        <Loaded query={report} lines={6}>
          {({ items }) => <FindingList findings={items} />}
        </Loaded>
      ) : (
        <p className="dim">
          Looks at the clock, the limits, the kernel, the cards and the stores of the host that
          shows this page. Another host is examined by its own page, or by{" "}
          <code>penstock doctor</code> there.
        </p>
      )}
    </Panel>
  );
}
