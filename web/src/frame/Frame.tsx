/** What is around each page: the menu, the bar at the top, the state of the contact. */

import { Suspense, useEffect, useMemo } from "react";
import { Route, Switch, useLocation } from "wouter";
import { useLive } from "../api/live-context";
import { useMe } from "../api/queries";
import { type PageRoute, ROLE_OF_RIGHT } from "../routes";
import { EmptyState } from "../ui/EmptyState";
import { IconKey, IconSearch } from "../ui/icons";
import { LinkTo, Reachable } from "../ui/LinkTo";
import { Loading } from "../ui/Loaded";
import { PageHeader, useFirstPath } from "../ui/PageHeader";
import { ContactBanner } from "./ContactBanner";
import classes from "./Frame.module.css";
import { fetchAhead } from "./fetch-ahead";
import { BottomBar, Rail } from "./Menu";
import { PageFault } from "./PageFault";
import { TopBar } from "./TopBar";

export function Frame({ routes }: { routes: PageRoute[] }) {
  const rights = useMe().data?.rights;
  const { contact } = useLive();
  const [path] = useLocation();
  useFirstPath();
  const open = useMemo(
    () => routes.filter((route) => route.right === undefined || rights?.includes(route.right)),
    [routes, rights],
  );
  const paths = useMemo(() => open.map((route) => route.path), [open]);
  useEffect(() => fetchAhead(open.map((route) => route.page)), [open]);
  return (
    <Reachable.Provider value={paths}>
      <a className={classes.skip} href="#main">
        Skip to the page
      </a>
      <div className={classes.frame}>
        <Rail routes={open} />
        <div className={classes.column}>
          <TopBar routes={open} />
          <ContactBanner />
          <main
            className={classes.main}
            id="main"
            tabIndex={-1}
            data-stale={contact === "lost" || contact === "electing" || undefined}
          >
            <PageFault path={path}>
              <Suspense fallback={<OnItsWay />}>
                <Switch>
                  {routes.map((route) => (
                    <Route
                      key={route.path}
                      path={route.path}
                      component={
                        open.includes(route) ? route.page : () => <NoRight route={route} />
                      }
                    />
                  ))}
                  <Route component={NoPage} />
                </Switch>
              </Suspense>
            </PageFault>
          </main>
        </div>
        <BottomBar routes={open} />
      </div>
    </Reachable.Provider>
  );
}

/** The place of a page whose program is being fetched: as high as most, so that nothing jumps. */
function OnItsWay() {
  return (
    <div className={classes.wait}>
      <Loading lines={8} />
    </div>
  );
}

function NoPage() {
  return (
    <>
      <PageHeader title="There is no such page" />
      <EmptyState
        icon={IconSearch}
        title="The address leads nowhere"
        action={<LinkTo to="/">To the overview</LinkTo>}
      >
        It may be of another release of Penstock.
      </EmptyState>
    </>
  );
}

function NoRight({ route }: { route: PageRoute }) {
  const role = ROLE_OF_RIGHT[route.right ?? ""] ?? "viewer";
  const me = useMe().data;
  return (
    <>
      <PageHeader title={route.menu?.label ?? "This page"} />
      <EmptyState icon={IconKey} title={`This page is for the role ${role}`}>
        You are logged in as {me?.user}, with the role {me?.role}. An administrator can give you
        another one:{" "}
        <code>
          penstock user set {me?.user} --role {role}
        </code>
        .
      </EmptyState>
    </>
  );
}
