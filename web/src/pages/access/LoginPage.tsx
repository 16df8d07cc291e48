/** The log-in: the ways that exist, and why one is here. */

import { useQueryClient } from "@tanstack/react-query";
import { useLocation, useSearch } from "wouter";
import { keys } from "../../api/keys";
import { useMethods } from "../../api/queries";
import { at } from "../../base";
import { ProblemBox } from "../../ui/ProblemBox";
import { AccessFrame } from "./AccessFrame";
import classes from "./AccessFrame.module.css";
import { LoginWays } from "./LoginWays";
import { nextOf } from "./next";

export function LoginPage() {
  const methods = useMethods();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const search = new URLSearchParams(useSearch());
  const next = nextOf(search.get("next"));
  const enter = () => {
    // Nothing of a former user may stay.
    queries.removeQueries({ predicate: (query) => query.queryKey[0] !== keys.methods[0] });
    navigate(next, { replace: true });
  };
  return (
    <AccessFrame title="Log in">
      {search.has("out") && (
        <p className={classes.note} role="status">
          You have logged out.
        </p>
      )}
      {next !== "/" && (
        <p className={classes.note} role="status">
          {next.startsWith("/device")
            ? "Log in to decide about the program that asks."
            : "Log in to see that page."}
        </p>
      )}
      {methods.isError && (
        <div className={classes.form}>
          <ProblemBox error={methods.error} onRetry={() => void methods.refetch()} />
        </div>
      )}
      <LoginWays back={at(next)} onDone={enter} />
      {methods.data?.password === false ? (
        methods.data.oidc === undefined && (
          <p className={classes.foot}>
            This site takes no passwords. On a host of the site root can let you in by{" "}
            <code>penstock login</code> and <code>penstock auth approve</code>.
          </p>
        )
      ) : (
        <p className={classes.foot}>
          No password yet, or lost? An administrator makes you a link:{" "}
          <code>penstock user invite NAME</code>. The first administrator begins with{" "}
          <code>penstock web setup</code> on a host of the site.
        </p>
      )}
    </AccessFrame>
  );
}
