/** The result of a query: its data, its problem, or that it is on the way. */

import { Skeleton } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { ProblemBox } from "./ProblemBox";

interface Props<T> {
  query: UseQueryResult<T>;
  /** Lines of the skeleton. */
  lines?: number;
  children: (data: T) => ReactNode;
}

/** Shows what is there also while it is fetched anew: never a skeleton over data. */
export function Loaded<T>({ query, lines = 3, children }: Props<T>) {
  if (query.data !== undefined) {
    return <>{children(query.data)}</>;
  }
  if (query.isError) {
    return (
      <div style={{ padding: 12 }}>
        <ProblemBox error={query.error} onRetry={() => void query.refetch()} />
      </div>
    );
  }
  return <Loading lines={lines} />;
}

/** Grey lines, after a moment: what is quick shows none. */
export function Loading({ lines = 3 }: { lines?: number }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => setLate(true), 150);
    return () => window.clearTimeout(timer);
  }, []);
  return (
    <div style={{ padding: 16, minHeight: lines * 28 }} aria-busy="true">
      {late &&
        Array.from({ length: lines }, (_, line) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the lines are all alike
          <Skeleton key={line} height={14} mb={14} width={`${90 - 17 * (line % 3)}%`} />
        ))}
    </div>
  );
}
