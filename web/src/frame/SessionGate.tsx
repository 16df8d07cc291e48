/** Lets in who is logged in, and asks for a log-in over the page when a session ends. */

import { Button } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect } from "react";
import { Redirect, useLocation, useSearch } from "wouter";
import type { Live } from "../api/live";
import { LiveProvider } from "../api/live-context";
import { isLoggedOut } from "../api/problem";
import { type Me, useMe } from "../api/queries";
import { at } from "../base";
import { LoginWays } from "../pages/access/LoginWays";
import { Dialog } from "../ui/Dialog";
import { ProblemBox } from "../ui/ProblemBox";
import classes from "./SessionGate.module.css";

export function SessionGate({ live, children }: { live: Live; children: ReactNode }) {
  const me = useMe();
  const [path] = useLocation();
  const search = useSearch();
  if (me.data === undefined) {
    if (isLoggedOut(me.error)) {
      const here = path + (search ? `?${search}` : "");
      const next = here === "/" ? "" : `?next=${encodeURIComponent(here)}`;
      return <Redirect to={`/login${next}`} replace />;
    }
    return me.isError ? <NoBegin error={me.error} retry={() => void me.refetch()} /> : null;
  }
  return (
    <LiveProvider live={live} session={me.data.via_id ?? ""}>
      {children}
      <SessionOver me={me.data} over={isLoggedOut(me.error)} />
    </LiveProvider>
  );
}

/** The daemon does not answer when the page opens: it tries until it does. */
function NoBegin({ error, retry }: { error: unknown; retry: () => void }) {
  useEffect(() => {
    const timer = window.setInterval(retry, 3_000);
    return () => window.clearInterval(timer);
  }, [retry]);
  return (
    <main className={classes.alone}>
      <h1 className={classes.title}>Penstock</h1>
      <ProblemBox error={error} onRetry={retry} />
      <p className="dim">This page tries again every three seconds.</p>
    </main>
  );
}

function SessionOver({ me, over }: { me: Me; over: boolean }) {
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const entered = (user: string) => {
    if (user === me.user) {
      void queries.invalidateQueries();
    } else {
      // Another person: nothing of the former one may stay in sight.
      sessionStorage.clear();
      window.location.assign(at("/"));
    }
  };
  const leave = () => {
    queries.clear();
    sessionStorage.clear();
    navigate("/login");
  };
  return (
    <Dialog opened={over} onClose={() => {}} closable={false} title="Your session is over">
      <p className={classes.why}>
        It was not used for long, or it was ended, or your rights have changed. Log in to continue:
        what you have typed is still here.
      </p>
      <LoginWays
        name={me.user}
        back={window.location.pathname + window.location.search}
        onDone={entered}
      />
      <Button variant="subtle" color="gray" fullWidth mt="xs" onClick={leave}>
        Leave this page
      </Button>
    </Dialog>
  );
}
