/** What can be done to transfers: pause, resume, retry, cancel, the same again. */

import { notifications } from "@mantine/notifications";
import { useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, type Schemas, unwrap } from "../../api/client";
import { keys } from "../../api/keys";
import { problemOf } from "../../api/problem";
import type { TransferSummary } from "../../api/queries";
import { useConfirm } from "../../ui/ConfirmDialog";
import { formatBytes, formatCount, sentence } from "../../ui/format";
import { Place } from "../../ui/Location";
import { nameOf } from "../overview/attention";
import classes from "./steer.module.css";

export type Action = Schemas["Action"];

/** What an action needs to know of a transfer: both forms of the API have it. */
export type Steered = Pick<TransferSummary, "id" | "label" | "state" | "target"> & {
  waiting?: { code: string; until?: string };
  progress: Pick<TransferSummary["progress"], "bytes" | "bytes_found" | "files" | "files_found">;
};

const FITTING: Record<string, Action[]> = {
  queued: ["pause", "cancel"],
  running: ["pause", "cancel"],
  paused: ["resume", "cancel"],
  failed: ["retry"],
};

/** Returns the actions that a transfer takes in its state. */
export function actionsOf(transfer: Pick<Steered, "state" | "waiting">): Action[] {
  const fitting = FITTING[transfer.state as string] ?? [];
  // One that waits for its next attempt makes it at once when it is resumed.
  const waits = transfer.state === "queued" && transfer.waiting?.code === "retry";
  return waits ? ["resume", ...fitting] : fitting;
}

/** The word on the button. */
export function actionLabel(action: Action, transfer?: Pick<Steered, "state">): string {
  if (action === "resume" && transfer?.state === "queued") {
    return "Try now";
  }
  return { pause: "Pause", resume: "Resume", cancel: "Cancel", retry: "Retry" }[action];
}

const DONE: Record<Action, string> = {
  pause: "Paused",
  resume: "Resumed",
  cancel: "Cancelled",
  retry: "Retried",
};
const UNDO: Partial<Record<Action, Action>> = { pause: "resume", resume: "pause" };

/** Shows what was done; `undo` is offered on a button. */
export function note(text: string, undo?: () => void): void {
  const id = notifications.show({
    message: (
      <span className={classes.note}>
        {text}
        {undo && (
          <button
            type="button"
            className={classes.undo}
            onClick={() => {
              notifications.hide(id);
              undo();
            }}
          >
            Undo
          </button>
        )}
      </span>
    ),
  });
}

/** Shows why something was not done. */
export function noteFault(what: string, error: unknown): void {
  const problem = problemOf(error);
  notifications.show({
    color: "red",
    autoClose: 12_000,
    title: what,
    message: `${sentence(problem.detail || problem.title)}. ${sentence(problem.hint)}`,
  });
}

function call(id: string, action: Action) {
  const params = { path: { id } };
  // The four paths are alike; one of them stands for all.
  const path = `/api/v1/transfers/{id}/${action}` as "/api/v1/transfers/{id}/pause";
  return unwrap(api.POST(path, { params }));
}

async function callMany(ids: string[], action: Action): Promise<Schemas["BulkItem"][]> {
  const items: Schemas["BulkItem"][] = [];
  for (let begin = 0; begin < ids.length; begin += BULK_MAX) {
    const body = { action, ids: ids.slice(begin, begin + BULK_MAX) };
    items.push(...(await unwrap(api.POST("/api/v1/transfer-actions", { body }))).items);
  }
  return items;
}

/** Most transfers of one request. */
const BULK_MAX = 500;

export type Steer = (action: Action, transfers: Steered[]) => void;

/** Returns a function that acts on transfers, says what came of it, and offers to undo it. */
export function useSteer(): Steer {
  const queries = useQueryClient();
  const confirm = useConfirm();
  return useMemo(() => {
    const refresh = () => queries.invalidateQueries({ queryKey: keys.transfers });
    const one = async (action: Action, transfer: Steered) => {
      await call(transfer.id, action);
      await refresh();
      const undo = UNDO[action];
      const back = undo && (() => void one(undo, transfer).catch(fault(undo, transfer)));
      note(`${DONE[action]} ${nameOf(transfer)}.`, back);
    };
    const fault = (action: Action, transfer: Steered) => (error: unknown) =>
      noteFault(`${actionLabel(action)} ${nameOf(transfer)}: not done`, error);
    const many = async (action: Action, transfers: Steered[]) => {
      const items = await callMany(
        transfers.map((transfer) => transfer.id),
        action,
      );
      await refresh();
      const failed = items.filter((item) => item.problem !== undefined);
      const done = items.length - failed.length;
      if (done > 0) {
        note(`${DONE[action]} ${formatCount(done)} transfers.`);
      }
      const names = new Map(transfers.map((transfer) => [transfer.id, nameOf(transfer)]));
      for (const item of failed.slice(0, 3)) {
        const why = item.problem as Schemas["ProblemDetails"];
        notifications.show({
          color: "red",
          autoClose: 12_000,
          title: `${actionLabel(action)} ${names.get(item.id) ?? item.id}: not done`,
          message: `${sentence(why.detail)}. ${sentence(why.hint)}`,
        });
      }
    };
    const run = (action: Action, transfers: Steered[]): Promise<unknown> => {
      const [first] = transfers;
      return transfers.length === 1 && first ? one(action, first) : many(action, transfers);
    };
    return (action, transfers) => {
      const [first] = transfers;
      if (first === undefined) {
        return;
      }
      if (action === "cancel") {
        confirm({
          title: transfers.length === 1 ? "Cancel this transfer?" : "Cancel these transfers?",
          effect: <CancelEffect transfers={transfers} />,
          verb:
            transfers.length === 1
              ? "Cancel transfer"
              : `Cancel ${formatCount(transfers.length)} transfers`,
          keep: transfers.length === 1 ? "Keep it" : "Keep them",
          run: () => run(action, transfers),
        });
        return;
      }
      const what =
        transfers.length === 1 ? nameOf(first) : `${formatCount(transfers.length)} transfers`;
      run(action, transfers).catch((error) =>
        noteFault(`${actionLabel(action)} ${what}: not done`, error),
      );
    };
  }, [queries, confirm]);
}

/** The effect of a cancellation in numbers. */
function CancelEffect({ transfers }: { transfers: Steered[] }) {
  const sum = (of: (transfer: Steered) => number) =>
    transfers.reduce((total, transfer) => total + of(transfer), 0);
  const files = sum(({ progress }) => progress.files);
  const bytes = sum(({ progress }) => progress.bytes);
  const left = Math.max(0, sum(({ progress }) => progress.bytes_found) - bytes);
  const [first] = transfers;
  return (
    <div className={classes.effect}>
      {transfers.length === 1 && first && <p className={classes.name}>{nameOf(first)}</p>}
      <p>
        {files === 0 ? (
          "No file is complete at the target yet."
        ) : (
          <>
            {formatCount(files)} {files === 1 ? "file" : "files"}, {formatBytes(bytes)}, stay
            {transfers.length === 1 && first && (
              <>
                {" "}
                at <Place place={first.target} />
              </>
            )}
            .
          </>
        )}{" "}
        {left > 0 && <>{formatBytes(left)} do not move. </>}
        What is half done is removed there.
      </p>
      <p>
        It cannot be resumed. To stop for a while, pause {transfers.length === 1 ? "it" : "them"}{" "}
        instead.
      </p>
    </div>
  );
}
