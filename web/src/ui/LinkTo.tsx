/** Links to pages that the caller may use. */

import { createContext, type ReactNode, useContext } from "react";
import { Link, matchRoute, useRouter } from "wouter";

/** Paths of the pages that the caller may use. */
export const Reachable = createContext<readonly string[]>([]);

/** Returns a function that says whether a link leads to a page which the caller may use. */
export function useReaches(): (to: string) => boolean {
  const paths = useContext(Reachable);
  const { parser } = useRouter();
  return (to) => {
    const path = to.split(/[?#]/)[0] ?? to;
    return paths.some((route) => matchRoute(parser, route, path)[0]);
  };
}

interface Props {
  to: string;
  className?: string;
  children: ReactNode;
}

/** A link, or its words alone. */
export function LinkTo({ to, className, children }: Props) {
  const reaches = useReaches();
  return reaches(to) ? (
    <Link href={to} className={className}>
      {children}
    </Link>
  ) : (
    <span className={className}>{children}</span>
  );
}

/** A link whose words say nothing but that it is there: it is left out where it leads nowhere. */
export function MoreLink(props: Props) {
  return useReaches()(props.to) ? <LinkTo {...props} /> : null;
}
