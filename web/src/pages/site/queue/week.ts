/** Windows as spans of the days of a week. */

import type { Schemas } from "../../../api/client";

type Window = Schemas["QueueWindow"];

export const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const;
export type Day = (typeof DAYS)[number];

export const DAY_NAMES: Record<Day, string> = {
  mon: "Mon",
  tue: "Tue",
  wed: "Wed",
  thu: "Thu",
  fri: "Fri",
  sat: "Sat",
  sun: "Sun",
};

const DAY_MINUTES = 24 * 60;

/** A part of a day, in minutes from its begin. */
export interface Span {
  window: string;
  from: number;
  to: number;
}

/** Returns minutes from midnight of `hh:mm`. */
export function minutesOf(time: string): number {
  const [hours = "0", minutes = "0"] = time.split(":");
  return Number(hours) * 60 + Number(minutes);
}

/** Returns the spans of each day. A window that ends on the next day has two of them. */
export function spansOf(windows: readonly Pick<Window, "name" | "days" | "from" | "to">[]) {
  const spans: Record<Day, Span[]> = {
    mon: [],
    tue: [],
    wed: [],
    thu: [],
    fri: [],
    sat: [],
    sun: [],
  };
  for (const { name, days, from, to } of windows) {
    const [begin, end] = [minutesOf(from), minutesOf(to)];
    for (const day of days) {
      const index = DAYS.indexOf(day as Day);
      const next = DAYS[(index + 1) % DAYS.length];
      if (index < 0 || next === undefined) {
        continue;
      }
      const overnight = end <= begin;
      spans[day as Day].push({ window: name, from: begin, to: overnight ? DAY_MINUTES : end });
      if (overnight && end > 0) {
        spans[next].push({ window: name, from: 0, to: end });
      }
    }
  }
  return spans;
}

/** Returns the place of a span within its day, in per cent. */
export function placeOf(span: Span): { left: string; width: string } {
  const percent = (minutes: number) => `${(minutes / DAY_MINUTES) * 100}%`;
  return { left: percent(span.from), width: percent(span.to - span.from) };
}

/** Returns days in words: `Mon–Fri`, `Sat, Sun`, `every day`. */
export function dayWords(days: readonly string[]): string {
  const indices = DAYS.flatMap((day, index) => (days.includes(day) ? [index] : []));
  const [first = 0] = indices;
  const last = indices.at(-1) ?? first;
  if (indices.length === DAYS.length) {
    return "every day";
  }
  const name = (index: number) => DAY_NAMES[DAYS[index] ?? "mon"];
  if (indices.length > 2 && last - first === indices.length - 1) {
    return `${name(first)}–${name(last)}`;
  }
  return indices.map(name).join(", ");
}
