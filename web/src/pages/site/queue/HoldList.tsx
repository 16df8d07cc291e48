/** Holds of operators: what they keep from running, why, and until when. */

import { useQueryClient } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { ActionButton } from "../../../ui/ActionButton";
import { useConfirm } from "../../../ui/ConfirmDialog";
import { formatCount } from "../../../ui/format";
import { IconHold } from "../../../ui/icons";
import { Panel } from "../../../ui/Panel";
import { Moment } from "../../../ui/Quantity";
import { ToneBadge } from "../../../ui/StateBadge";
import classes from "./QueuePage.module.css";

type Rule = Schemas["PauseRuleView"];

export function HoldList({ rules }: { rules: Rule[] }) {
  return (
    <Panel title="Holds" aside={rules.length} flush>
      <ul className={classes.list}>
        {rules.map((rule) => (
          <Hold key={rule.name} rule={rule} />
        ))}
      </ul>
    </Panel>
  );
}

/** Returns the transfers that a filter chooses, in words. */
export function filterWords(filter: Schemas["QueueFilter"]): string {
  const parts = [
    filter.user && `of ${filter.user}`,
    filter.site && `with ${filter.site}`,
    filter.store && `of the store ${filter.store}`,
    filter.label && `labelled “${filter.label}”`,
  ].filter(Boolean);
  return parts.length === 0 ? "all transfers" : `transfers ${parts.join(", ")}`;
}

function Hold({ rule }: { rule: Rule }) {
  const confirm = useConfirm();
  const queries = useQueryClient();
  const release = () =>
    confirm({
      title: `Release ${rule.name}?`,
      effect: (
        <p>
          {rule.holds === 0
            ? "It holds no transfer now."
            : `${formatCount(rule.holds)} ${rule.holds === 1 ? "transfer" : "transfers"} may run again, in their turn.`}
        </p>
      ),
      verb: "Release",
      keep: "Keep the hold",
      danger: false,
      run: async () => {
        const params = { path: { name: rule.name } };
        await unwrap(api.DELETE("/api/v1/queue/pause-rules/{name}", { params }));
        void queries.invalidateQueries({ queryKey: keys.queue });
      },
    });
  return (
    <li className={classes.item}>
      <div className={classes.words}>
        <p className={classes.title}>
          {rule.name}
          <ToneBadge
            tone={rule.in_force ? "warn" : "dim"}
            icon={IconHold}
            label={rule.in_force ? `holds ${formatCount(rule.holds)}` : "expired"}
          />
        </p>
        <p>
          {filterWords(rule.filter)}
          {rule.reason !== "" && `: ${rule.reason}`}
        </p>
        <p className="dim">
          by {rule.by}, <Moment at={rule.since} />
          {rule.until ? (
            <>
              , until <Moment at={rule.until} exact />
            </>
          ) : (
            ", until it is released"
          )}
        </p>
      </div>
      <ActionButton
        size="compact-sm"
        variant="default"
        aria-label={`Release ${rule.name}`}
        onClick={release}
      >
        Release
      </ActionButton>
    </li>
  );
}
