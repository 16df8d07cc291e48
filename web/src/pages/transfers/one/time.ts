/** Where the time of a transfer's threads goes, by side, in a few groups of activities. */

import type { Schemas } from "../../../api/client";

type Seconds = Schemas["ActivitySeconds"];
type Peer = Schemas["PeerTime"];

export interface TimePart {
  key: string;
  label: string;
  seconds: number;
}

export interface SideTime {
  label: string;
  /** Seconds of all parts, and for a local copy of both sides. */
  whole: number;
  parts: TimePart[];
}

const GROUPS: [key: string, label: string, activities: (keyof Seconds)[]][] = [
  ["storage", "Read, write, sync", ["read", "write", "sync"]],
  ["files", "Open and name files", ["metadata", "publish"]],
  ["processor", "Hash and encrypt", ["hash", "seal", "open", "compare"]],
  ["network", "Send and receive", ["send", "receive"]],
  ["side", "Wait for the other side", ["wait_source", "wait_target"]],
  ["limit", "Wait for the limit", ["wait_limit"]],
  ["work", "Wait for work or syncs", ["wait_grant", "wait_disk", "wait_memory"]],
  ["other", "Other", ["other"]],
];

function secondsOf(peers: Peer[], activities: (keyof Seconds)[]): number {
  const all = peers.flatMap((peer) => [peer.lanes, peer.publishers]);
  const each = all.flatMap((time) => activities.map((activity) => time?.[activity] ?? 0));
  return each.reduce((sum, seconds) => sum + seconds, 0);
}

function partsOf(peers: Peer[]): TimePart[] {
  const parts = GROUPS.map(([key, label, activities]) => ({
    key,
    label,
    seconds: secondsOf(peers, activities),
  }));
  return parts.filter((part) => part.seconds > 0);
}

/** Returns the sides of which anything is known; lanes without work count for nothing. */
export function sidesOf(time: Schemas["TransferTime"] | undefined): SideTime[] {
  const sides = [
    { label: "Source", parts: partsOf(time?.source ?? []) },
    { label: "Target", parts: partsOf(time?.target ?? []) },
  ].map((side) => ({
    ...side,
    whole: side.parts.reduce((sum, part) => sum + part.seconds, 0),
  }));
  const all = sides.reduce((sum, side) => sum + side.whole, 0);
  const known = sides.filter((side) => side.whole > 0);
  // One thread of a local copy does what both sides do.
  return time?.is_local ? known.map((side) => ({ ...side, whole: all })) : known;
}
