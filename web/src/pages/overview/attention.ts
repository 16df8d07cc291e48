/** Decides what needs attention: each line is a sentence, a cause, and where to go. */

import type { Schemas } from "../../api/client";
import type { TransferSummary } from "../../api/queries";
import { formatCount, formatLocation, sentence, shortId } from "../../ui/format";

export interface Attention {
  key: string;
  level: "bad" | "warning";
  /** What is the matter, as a sentence without its stop. */
  what: string;
  /** Why, or what it costs. */
  why: string;
  /** What to do, in words; a command where there is one. */
  action: string;
  /** The page that shows more. */
  to?: string;
  /** The words of that link. */
  link?: string;
}

export interface Sources {
  findings: readonly Schemas["Finding"][];
  /** Transfers of `attention=true`. */
  troubled: readonly TransferSummary[];
  active: readonly TransferSummary[];
  webhooks: readonly Schemas["WebhookView"][];
  now: number;
}

/** Time for which a failure is news, in milliseconds. */
const NEWS_MS = 7 * 24 * 3_600_000;
/** Silence of a running transfer that is worth a word, in milliseconds. */
const QUIET_MS = 60_000;

export function nameOf(transfer: Pick<TransferSummary, "id" | "label">): string {
  return transfer.label || `Transfer ${shortId(transfer.id)}`;
}

/** Returns all matters, the worst first. */
export function attention(sources: Sources): Attention[] {
  const matters = [
    ...sources.findings.flatMap(ofFinding),
    ...sources.troubled.flatMap((transfer) => ofTransfer(transfer, sources.now)),
    ...sources.active.flatMap(ofDeadline),
    ...sources.active.flatMap((transfer) => ofSilence(transfer, sources.now)),
    ...sources.webhooks.flatMap(ofWebhook),
  ];
  const seen = new Set<string>();
  return matters
    .filter((one) => !seen.has(one.key) && seen.add(one.key))
    .sort((a, b) => Number(a.level !== "bad") - Number(b.level !== "bad"));
}

function ofFinding(finding: Schemas["Finding"]): Attention[] {
  if (finding.level !== "warning" && finding.level !== "bad") {
    return [];
  }
  const where = finding.peer === "" ? "" : `${finding.peer}: `;
  return [
    {
      key: `finding ${finding.code} ${finding.peer} ${finding.what}`,
      level: finding.level,
      what: where === "" ? sentence(finding.what) : where + finding.what,
      why: finding.why,
      action: finding.action,
      to: "/peers",
      link: "Peers",
    },
  ];
}

function ofTransfer(transfer: TransferSummary, now: number): Attention[] {
  const to = `/transfers/${transfer.id}`;
  const way = `${formatLocation(transfer.source)} → ${formatLocation(transfer.target)}`;
  if (transfer.state === "failed") {
    const ended = Date.parse(transfer.ended_at ?? transfer.created_at);
    if (now - ended > NEWS_MS) {
      return [];
    }
    const { count } = transfer.failures;
    const items = count === 1 ? "1 item failed" : `${formatCount(count)} items failed`;
    return [
      {
        key: `failed ${transfer.id}`,
        level: "bad",
        what: `${nameOf(transfer)} failed${count > 0 ? `: ${items}` : ""}`,
        why: transfer.reason || way,
        action: "",
        to: `${to}?tab=failures`,
        link: count > 0 ? "Failures" : "Show",
      },
    ];
  }
  const text = transfer.waiting?.text ?? transfer.reason;
  return [
    {
      key: `waits ${transfer.id}`,
      level: "warning",
      what: `${nameOf(transfer)} waits for ${text}`,
      why: way,
      action: "",
      to,
      link: "Show",
    },
  ];
}

function ofDeadline(transfer: TransferSummary): Attention[] {
  const { deadline } = transfer;
  if (deadline === undefined || !["at-risk", "at_risk", "missed"].includes(deadline.promise)) {
    return [];
  }
  const missed = deadline.promise === "missed";
  return [
    {
      key: `deadline ${transfer.id}`,
      level: missed ? "bad" : "warning",
      what: `${nameOf(transfer)} ${missed ? "has missed its deadline" : "may miss its deadline"}`,
      why: transfer.bottleneck ? `It is limited by ${transfer.bottleneck.text}` : transfer.reason,
      action: "",
      to: `/transfers/${transfer.id}`,
      link: "Show",
    },
  ];
}

function ofSilence(transfer: TransferSummary, now: number): Attention[] {
  const begun = Date.parse(transfer.started_at ?? transfer.created_at);
  const { progress } = transfer;
  const moves = progress.rate_bits_per_s > 0 || progress.bytes === progress.bytes_found;
  if (transfer.state !== "running" || moves || now - begun < QUIET_MS) {
    return [];
  }
  return [
    {
      key: `quiet ${transfer.id}`,
      level: "warning",
      what: `${nameOf(transfer)} runs and moves nothing`,
      why: transfer.reason || transfer.bottleneck?.text || "",
      action: "",
      to: `/transfers/${transfer.id}`,
      link: "Show",
    },
  ];
}

function ofWebhook(webhook: Schemas["WebhookView"]): Attention[] {
  if (webhook.disabled || webhook.error === undefined) {
    return [];
  }
  return [
    {
      key: `webhook ${webhook.name}`,
      level: "warning",
      what: `The webhook ${webhook.name} does not reach its receiver`,
      why: `${webhook.error}; ${formatCount(webhook.pending)} messages wait`,
      action: "",
      to: "/webhooks",
      link: "Webhooks",
    },
  ];
}
