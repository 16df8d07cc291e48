/**
 * The stream of events of the site, and whether there is contact at all. It is the one place that
 * says so: queries rest while contact is lost, and all are fetched anew when it is back.
 */

import type { QueryClient } from "@tanstack/react-query";
import { onlineManager } from "@tanstack/react-query";
import { at } from "../base";
import type { Schemas } from "./client";
import { EventParser } from "./event-parser";
import { keys } from "./keys";
import { errorOf, isLoggedOut, ProblemError } from "./problem";
import type { TransferSummary } from "./queries";
import {
  type Heard,
  heardOf,
  NO_RATES,
  type RateHistory,
  type Rates,
  sumRates,
  withSample,
} from "./rates";
import { SeriesBook } from "./series";

export type TransferEvent = Schemas["EventStatus"] | Schemas["EventSummary"];
type StreamEvent = Schemas["Event"];

/** `electing`: a peer answers, and the site has no controller at the moment. */
export type Contact = "connecting" | "live" | "behind" | "lost" | "electing";

export interface LiveState {
  contact: Contact;
  /** Time since which it is so, in milliseconds since 1970. */
  since: number;
  /** Time of the next try; null while there is contact, or one is under way. */
  nextTry: number | null;
  rates: Rates;
  history: RateHistory;
}

/** Silence after which figures may be old: the daemon sends a comment every 15 seconds. */
const BEHIND_MS = 20_000;
/** Silence after which a stream counts as broken. */
const BROKEN_MS = 35_000;
/** Longest wait between two tries. A daemon that is back is seen within three seconds. */
const RETRY_MS_MAX = 2_000;
const STORED = "penstock-rates";
/** Wait until figures are shown, and until lists are fetched anew, so that many events are one. */
const SHOW_MS = 200;
const REFRESH_MS = 1_000;
/** Most ends of transfers that are kept. */
const ENDS_MAX = 2_000;

const NONE: Rates = { in: 0, out: 0, within: 0 };

export class Live {
  private state: LiveState;
  private readonly listeners = new Set<() => void>();
  private readonly progress = new Map<string, TransferEvent>();
  private readonly heard = new Map<string, Heard>();
  private readonly directions = new Map<string, string>();
  /** Transfers that no list had when they were heard of: asked for once. */
  private readonly asked = new Set<string>();
  /** Rates of each transfer, as long as the page has been open. */
  readonly series = new SeriesBook();
  private readonly queries: QueryClient;
  /** Transfers whose end is kept. */
  private readonly ends = new Set<string>();
  private lastId = "";
  private lastByte = 0;
  private stop: AbortController | null = null;
  private wake: (() => void) | null = null;
  private shows = false;
  private refreshes = false;

  constructor(queries: QueryClient) {
    this.queries = queries;
    const now = Date.now();
    this.state = {
      contact: "connecting",
      since: now,
      nextTry: null,
      rates: NONE,
      history: stored(now),
    };
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  snapshot = (): LiveState => this.state;

  /** Returns the last event of a transfer, or undefined if there was none since the page opened. */
  progressOf = (id: string): TransferEvent | undefined => this.progress.get(id);

  /** Learns of transfers from a list: directions, and rates of those that another site owns. */
  learn(summaries: readonly TransferSummary[]): void {
    const now = Date.now();
    for (const one of summaries) {
      this.directions.set(one.id, one.direction);
      if (!this.progress.has(one.id)) {
        // A list is fetched every five seconds: its figures count until the next one.
        this.heard.set(one.id, heardOf(one, now + 4_000));
      }
    }
  }

  /** Follows the stream until `close`; returns a function that closes it. */
  open(): () => void {
    this.stop = new AbortController();
    const { signal } = this.stop;
    const clock = window.setInterval(() => this.tick(), 1_000);
    window.addEventListener("pagehide", this.save);
    void this.follow(signal);
    return () => {
      window.removeEventListener("pagehide", this.save);
      window.clearInterval(clock);
      this.stop?.abort();
      this.wake?.();
    };
  }

  /** Tries at once, where a try waits for its turn. */
  tryNow = (): void => this.wake?.();

  /** Notes that a query has found no daemon: the stream may not have noticed yet. */
  noteLoss(): void {
    if (this.state.contact === "live") {
      this.set({ contact: "behind", since: Date.now() });
    }
  }

  private set(change: Partial<LiveState>): void {
    this.state = { ...this.state, ...change };
    this.tell();
  }

  private tell(): void {
    for (const listener of this.listeners) {
      listener();
    }
  }

  /** Shows the figures of transfers, a moment later: a busy site has hundreds of events a second. */
  private showSoon(): void {
    if (!this.shows) {
      this.shows = true;
      window.setTimeout(() => {
        this.shows = false;
        this.tell();
      }, SHOW_MS);
    }
  }

  /** Fetches lists of transfers anew, a moment later: one that changes seldom changes alone. */
  private refreshSoon(): void {
    if (!this.refreshes) {
      this.refreshes = true;
      window.setTimeout(() => {
        this.refreshes = false;
        // A list that is on its way may arrive, however slow it is.
        const onItsWay = { cancelRefetch: false };
        void this.queries.invalidateQueries({ queryKey: keys.transfers }, onItsWay);
        void this.queries.invalidateQueries({ queryKey: keys.queue }, onItsWay);
      }, REFRESH_MS);
    }
  }

  private async follow(signal: AbortSignal): Promise<void> {
    let tries = 0;
    while (!signal.aborted) {
      const lost = await this.read(signal).then(
        () => "lost" as const,
        (error) => (isElection(error) ? ("electing" as const) : error),
      );
      if (signal.aborted) {
        return;
      }
      if (isLoggedOut(lost)) {
        // The daemon is there. The gate learns that nobody is logged in, and asks for a log-in,
        // which begins a new stream.
        onlineManager.setOnline(true);
        this.set({ contact: "live", since: Date.now(), nextTry: null });
        void this.queries.refetchQueries({ queryKey: keys.me });
        return;
      }
      tries = this.state.contact === "live" || this.state.contact === "behind" ? 0 : tries + 1;
      const wait = Math.min(RETRY_MS_MAX, 250 * 2 ** tries);
      const contact = lost === "electing" ? "electing" : "lost";
      const now = Date.now();
      const since = this.state.contact === contact ? this.state.since : now;
      onlineManager.setOnline(false);
      this.set({ contact, since, nextTry: now + wait, rates: NONE });
      await new Promise<void>((resolve) => {
        const timer = window.setTimeout(resolve, wait);
        this.wake = () => {
          window.clearTimeout(timer);
          resolve();
        };
      });
      this.set({ nextTry: null });
    }
  }

  /** Reads one stream to its end. */
  private async read(signal: AbortSignal): Promise<void> {
    const one = new AbortController();
    const abort = () => one.abort();
    signal.addEventListener("abort", abort);
    const watch = window.setInterval(() => {
      if (Date.now() - this.lastByte > BROKEN_MS) {
        one.abort();
      }
    }, 1_000);
    this.lastByte = Date.now();
    try {
      const headers: Record<string, string> = { accept: "text/event-stream" };
      if (this.lastId !== "") {
        headers["last-event-id"] = this.lastId;
      }
      const init = { headers, signal: one.signal, cache: "no-store" as const };
      const response = await fetch(at("/api/v1/events"), init);
      if (!response.ok || response.body === null) {
        throw errorOf(response, await response.json().catch(() => null));
      }
      this.connected();
      const parser = new EventParser(this.lastId);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) {
          return;
        }
        this.lastByte = Date.now();
        if (this.state.contact === "behind") {
          this.set({ contact: "live", since: this.lastByte });
        }
        for (const event of parser.feed(value)) {
          this.lastId = event.id;
          this.take(event.data);
        }
      }
    } finally {
      window.clearInterval(watch);
      signal.removeEventListener("abort", abort);
    }
  }

  private connected(): void {
    const isReturn = this.state.contact === "lost" || this.state.contact === "electing";
    this.lastByte = Date.now();
    this.set({ contact: "live", since: this.lastByte, nextTry: null });
    onlineManager.setOnline(true);
    if (isReturn) {
      void this.queries.invalidateQueries();
    }
  }

  private take(data: string): void {
    let event: StreamEvent;
    try {
      event = JSON.parse(data) as StreamEvent;
    } catch {
      return;
    }
    if (event.type === "reset") {
      this.progress.clear();
      void this.queries.invalidateQueries();
      return;
    }
    if (event.type !== "status" && event.type !== "summary") {
      return;
    }
    const told = event as TransferEvent;
    const before = this.progress.get(told.id)?.state;
    const now = Date.now();
    const running = told.state === "running";
    this.progress.set(told.id, told);
    this.heard.set(told.id, { rate: told.rate_bits_per_s, running, at: now });
    this.series.note(told.id, now / 1_000, running ? told.rate_bits_per_s : null);
    const isNew = running && !this.directions.has(told.id) && !this.asked.has(told.id);
    if (isNew) {
      this.asked.add(told.id);
    }
    if (before !== told.state || isNew) {
      this.refreshSoon();
    }
    this.showSoon();
  }

  private tick(): void {
    const now = Date.now();
    const { contact } = this.state;
    const silent = now - this.lastByte > BEHIND_MS;
    const hasContact = contact === "live" || contact === "behind";
    const rates = hasContact ? sumRates(this.heard, this.directions, now) : NONE;
    const sample = hasContact && !silent ? rates : null;
    const history = withSample(this.state.history, Math.round(now / 1_000), sample);
    this.set({ rates, history, ...(contact === "live" && silent ? { contact: "behind" } : {}) });
    for (const [id, one] of this.heard) {
      if (now - one.at > 60_000) {
        this.heard.delete(id);
        this.forget(id);
        this.asked.delete(id);
      }
    }
  }

  /**
   * Forgets old figures of a transfer. The end of one is kept: a list that was fetched before does
   * not know of it.
   */
  private forget(id: string): void {
    const state = this.progress.get(id)?.state;
    // What is paused or waits has no further events, and its list may be an old one.
    if (state === undefined || state === "running") {
      this.progress.delete(id);
      return;
    }
    this.ends.add(id);
    const oldest = this.ends.values().next().value;
    if (this.ends.size > ENDS_MAX && oldest !== undefined) {
      this.ends.delete(oldest);
      this.progress.delete(oldest);
    }
  }

  private save = (): void => {
    try {
      sessionStorage.setItem(STORED, JSON.stringify(this.state.history));
    } catch {
      // Storage may be denied or full: the history begins with the page, then.
    }
  };
}

function isElection(error: unknown): boolean {
  return error instanceof ProblemError && error.status === 503;
}

/** Returns the history that this tab had before it was loaded again. */
function stored(now: number): RateHistory {
  try {
    const history = JSON.parse(sessionStorage.getItem(STORED) ?? "") as RateHistory;
    const last = history.at.at(-1) ?? 0;
    const isFresh = now / 1_000 - last < 300 && history.in.length === history.at.length;
    // A gap shows that nobody looked meanwhile.
    return isFresh ? withSample(history, last + 1, null) : NO_RATES;
  } catch {
    return NO_RATES;
  }
}
