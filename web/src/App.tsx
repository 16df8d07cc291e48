/** The whole page: libraries, the session, and the pages by their URL. */

import { createTheme, MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { Route, Router, Switch } from "wouter";
import { keys } from "./api/keys";
import { Live } from "./api/live";
import { ContactError, isLoggedOut } from "./api/problem";
import { BASE } from "./base";
import { Frame } from "./frame/Frame";
import { SessionGate } from "./frame/SessionGate";
import { routes } from "./pages";
import { LinkPage } from "./pages/access/LinkPage";
import { LoginPage } from "./pages/access/LoginPage";
import { ConfirmProvider } from "./ui/ConfirmDialog";

const theme = createTheme({
  cursorType: "pointer",
  defaultRadius: "sm",
  respectReducedMotion: true,
  components: {
    Tooltip: { defaultProps: { openDelay: 300, withArrow: true } },
    Notification: { defaultProps: { closeButtonProps: { "aria-label": "Dismiss" } } },
    Menu: { defaultProps: { shadow: "md", position: "bottom-end" } },
  },
});

const queries: QueryClient = new QueryClient({
  defaultOptions: {
    // The stream knows when the daemon is back; what it then asks for anew needs no retries here.
    queries: { retry: false, staleTime: 2_000, refetchOnWindowFocus: true },
    mutations: { retry: false, networkMode: "always" },
  },
  queryCache: new QueryCache({ onError: (error) => noteError(error) }),
  mutationCache: new MutationCache({ onError: (error) => noteError(error) }),
});

const live = new Live(queries);

function noteError(error: unknown): void {
  if (error instanceof ContactError) {
    live.noteLoss();
  }
  const me = queries.getQueryState(keys.me);
  if (isLoggedOut(error) && me?.status === "success" && me.fetchStatus === "idle") {
    // Whoever asked has no session: the gate finds out, and asks for a log-in over the page.
    void queries.refetchQueries({ queryKey: keys.me });
  }
}

export function App() {
  return (
    // Styles at run time are off: `styles/theme.css` has all of them (docs/web.md).
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      withCssVariables={false}
      withGlobalClasses={false}
      withStaticClasses={false}
    >
      <Notifications className="notifications" position="bottom-right" autoClose={5_000} />
      <QueryClientProvider client={queries}>
        <Router base={BASE}>
          <Switch>
            <Route path="/login" component={LoginPage} />
            <Route path="/setup">
              <LinkPage kind="setup" />
            </Route>
            <Route path="/invitation">
              <LinkPage kind="invitation" />
            </Route>
            <Route>
              <SessionGate live={live}>
                <ConfirmProvider>
                  <Frame routes={routes} />
                </ConfirmProvider>
              </SessionGate>
            </Route>
          </Switch>
        </Router>
      </QueryClientProvider>
    </MantineProvider>
  );
}
