/** The places of the last transfer, kept in this browser, and those to begin with. */

import type { PlaceDraft } from "./request";

const STORED = "penstock-places";

export interface Places {
  source: PlaceDraft;
  target: PlaceDraft;
}

/** Returns the places of the last submission from this browser. */
export function lastPlaces(): Places | undefined {
  try {
    const places = JSON.parse(localStorage.getItem(STORED) ?? "") as Places;
    return typeof places.source.store === "string" && typeof places.target.store === "string"
      ? places
      : undefined;
  } catch {
    return undefined;
  }
}

export function keepPlaces(places: Places): void {
  try {
    localStorage.setItem(STORED, JSON.stringify(places));
  } catch {
    // Storage may be denied or full: the next transfer begins with no places, then.
  }
}

/** Returns the place that a text such as `lab:raw/run7` names; undefined if it names none. */
export function parsePlace(text: string | null): PlaceDraft | undefined {
  const found = /^([^:/]+):([^:/]+)(?:\/(.*?)\/*)?$/.exec(text ?? "");
  return found === null
    ? undefined
    : { site: found[1] ?? "", store: found[2] ?? "", path: found[3] ?? "" };
}
