/** The live figures as hooks. */

import { createContext, type ReactNode, useContext, useEffect, useSyncExternalStore } from "react";
import type { Live, LiveState, TransferEvent } from "./live";
import { useRunning } from "./queries";

const LiveContext = createContext<Live | null>(null);

export function useLiveSource(): Live {
  const live = useContext(LiveContext);
  if (live === null) {
    throw new Error("a page that needs live figures lies outside of LiveProvider");
  }
  return live;
}

interface Props {
  live: Live;
  /** The session of the user: another one begins another stream. */
  session: string;
  children: ReactNode;
}

/** Follows the stream while a user is logged in. */
export function LiveProvider({ live, session, children }: Props) {
  // biome-ignore lint/correctness/useExhaustiveDependencies: another session is another stream
  useEffect(() => live.open(), [live, session]);
  return (
    <LiveContext.Provider value={live}>
      <Learn live={live} />
      {children}
    </LiveContext.Provider>
  );
}

function Learn({ live }: { live: Live }) {
  const { data } = useRunning();
  useEffect(() => {
    if (data) {
      live.learn(data.items);
    }
  }, [live, data]);
  return null;
}

export function useLive(): LiveState {
  const live = useLiveSource();
  return useSyncExternalStore(live.subscribe, live.snapshot);
}

/** The newest event of a transfer; undefined where the stream has told none yet. */
export function useProgress(id: string): TransferEvent | undefined {
  const live = useLiveSource();
  return useSyncExternalStore(live.subscribe, () => live.progressOf(id));
}

/** Returns whether actions can be done now: not while contact is lost. */
export function useCanAct(): boolean {
  const live = useContext(LiveContext);
  const contact = useSyncExternalStore(
    live?.subscribe ?? (() => () => {}),
    () => live?.snapshot().contact ?? "live",
  );
  return contact !== "lost";
}
