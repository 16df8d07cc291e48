/** The state of a transfer as a sentence, and advice for what went wrong. */

import type { Schemas } from "../../../api/client";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatRate,
  limitWords,
} from "../../../ui/format";
import type { TransferView } from "./useTransfer";

/** Returns the sentence below the name of a transfer. */
export function stateSentence(view: TransferView): string {
  const { state, progress, waiting, bottleneck, failures, reason } = view;
  switch (state as string) {
    case "queued":
      return waiting ? `Waits for ${waiting.text}.` : stop(reason || "Waits");
    case "running":
      if (!progress.scan_complete && progress.bytes_found === 0) {
        return stop(reason || "Looks at the source");
      }
      return bottleneck ? `Runs, ${limitWords(bottleneck)}.` : stop(reason || "Runs");
    case "paused": {
      const by = waiting?.on?.name;
      const end = waiting?.until === undefined ? "it resumes from there" : "it resumes by itself";
      return `Paused${by ? ` by ${by}` : ""}. What is done stays, and ${end}.`;
    }
    case "done":
      return doneSentence(view);
    case "failed": {
      const { count } = failures;
      const items = count === 1 ? "1 item" : `${formatCount(count)} items`;
      const why = reason && !/items? failed/.test(reason) ? ` ${capital(stop(reason))}` : "";
      return count > 0 ? `${items} failed; all else is at the target.${why}` : stop(reason);
    }
    case "cancelled":
      return `Cancelled${reason ? `: ${stop(reason)}` : "."} It cannot be resumed.`;
    default:
      return stop(reason);
  }
}

function doneSentence({ progress }: TransferView): string {
  const { bytes, files, seconds, skipped } = progress;
  if (files === 0 && bytes === 0) {
    return skipped > 0
      ? `Done: all ${formatCount(skipped)} items were there already.`
      : "Done: there was nothing to move.";
  }
  const mean = seconds > 0 ? ` at ${formatRate((bytes * 8) / seconds)} on average` : "";
  return (
    `Done: ${formatCount(files)} ${files === 1 ? "file" : "files"}, ${formatBytes(bytes)}, ` +
    `verified and durable, in ${formatDuration(Math.max(1, seconds))}${mean}.`
  );
}

function stop(text: string): string {
  return text === "" || /[.!?]$/.test(text) ? capital(text) : `${capital(text)}.`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Returns what to do about a wait; undefined where waiting is all there is to do. */
export function waitAdvice(code: string): string | undefined {
  return WAITS[code];
}

const WAITS: Record<string, string> = {
  turn: "Other transfers come first. A higher priority helps among your own.",
  "pause-rule": "An operator holds transfers of this kind: ask who made the rule.",
  retry:
    "The last attempt failed, and the next one begins by itself. Try now if the cause is gone.",
  room: "Free space at the target store, and it continues by itself.",
  "store-offline": "The store is not mounted, or is another one. penstock doctor names the cause.",
  "store-hung": "The file system of the store does not answer on the named peer.",
  "site-unreachable": "The other site does not answer. penstock doctor --pair tests both ends.",
  "no-path": "No address of the other site is reached. The data port must be open.",
  "no-peer": "No peer can take part: start a daemon, or end a drain.",
  certificate: "A certificate has ended. penstock doctor names it.",
  "plan-stale": "Source or target are not as the plan says: make the plan again.",
};

interface Advice {
  title: string;
  advice: string;
}

const FAILURES: Record<string, Advice> = {
  vanished: {
    title: "Gone at the source",
    advice: "The items were removed while the transfer ran. If they are back, retry.",
  },
  changed: {
    title: "Changed while being read",
    advice: "A program wrote to them. Stop it, and retry: only these are read again.",
  },
  denied: {
    title: "May not be read or written",
    advice: "Give the daemon's user the right at the host that the message names, then retry.",
  },
  read: {
    title: "Cannot be read",
    advice: "Look at the storage of the source: the message has its error. Then retry.",
  },
  write: {
    title: "Cannot be written",
    advice: "Look at room, quotas and the file system of the target, then retry.",
  },
  digest: {
    title: "Arrived otherwise than they were sent",
    advice: "Network cards, memory or storage alter data. Retry; if it is so again, test the host.",
  },
  publish: {
    title: "Did not get their final names",
    advice: "Something at the target is in the way, or its directory may not be written.",
  },
  exists: {
    title: "The name is taken at the target",
    advice:
      "As it was asked for, nothing was replaced. Move what is there and retry, or submit it again with another rule.",
  },
  link: {
    title: "Links that cannot be made",
    advice: "The file system of the target does not take them, or the item that they name failed.",
  },
  readback: {
    title: "Read back otherwise than written",
    advice: "The storage of the target returned other bytes. Retry, and test that storage.",
  },
  scan: {
    title: "Directories that cannot be listed",
    advice:
      "What is in them is not known. Mend the right or the storage at the source, then retry.",
  },
  delete: {
    title: "Not deleted at the target",
    advice: "The daemon's user may lack the right in the directory that holds them.",
  },
  remove: {
    title: "Not removed at the source",
    advice: "They are safe at the target. The source store must allow removal.",
  },
};

/** Returns words for a code of failed items; one of a later release is shown as it is. */
export function failureWords(code: string): Advice {
  return FAILURES[code] ?? { title: code, advice: "The messages say more." };
}

const NOT_KEPT_WHY: Record<string, string> = {
  withheld: "the store does not let them in from other sites",
  "not-permitted": "the daemon's user may not set them",
  "not-supported": "the file system of the target does not have them",
  unfit: "they mean nothing there, or are too large",
  "no-room": "there was no room for them",
};

/** Returns a loss of attributes as a line. */
export function notKeptWords(lost: Schemas["NotKept"]): string {
  const why = NOT_KEPT_WHY[lost.why as string] ?? lost.why;
  const items = `${formatCount(lost.items)} ${lost.items === 1 ? "item" : "items"}`;
  return `${String(lost.class).replaceAll("-", " ")} of ${items}: ${why}`;
}
