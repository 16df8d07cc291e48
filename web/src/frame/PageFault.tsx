/** Shows a fault of a page in its place: the frame around it stays usable. */

import { Button } from "@mantine/core";
import { Component, type ReactNode, useEffect, useRef } from "react";
import { useLive } from "../api/live-context";
import { PartError } from "../routes";
import { ActionButton } from "../ui/ActionButton";
import { EmptyState } from "../ui/EmptyState";
import { IconReload } from "../ui/icons";
import { PageHeader } from "../ui/PageHeader";
import { ProblemBox } from "../ui/ProblemBox";

interface Props {
  /** The path of the page: another one is another try. */
  path: string;
  children: ReactNode;
}

/** It has to be a class: React has no hook that catches errors. */
export class PageFault extends Component<Props, { error: unknown }> {
  override state = { error: null as unknown };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override componentDidUpdate(before: Props) {
    if (before.path !== this.props.path && this.state.error !== null) {
      this.setState({ error: null });
    }
  }

  override render() {
    if (this.state.error === null) {
      return this.props.children;
    }
    if (this.state.error instanceof PartError) {
      return <PartFault />;
    }
    return (
      <>
        <PageHeader title="This page has failed" />
        <ProblemBox error={this.state.error} />
        <Button mt="md" variant="default" onClick={() => window.location.reload()}>
          Load it again
        </Button>
      </>
    );
  }
}

/**
 * The program of the page is not there: the daemon is of another release by now, or away. When it
 * is back all is loaded again, as nothing is shown here that could be lost.
 */
function PartFault() {
  const { contact } = useLive();
  const wasAway = useRef(false);
  const away = contact === "lost";
  useEffect(() => {
    if (wasAway.current && !away) {
      window.location.reload();
    }
    wasAway.current = away;
  }, [away]);
  return (
    <>
      <PageHeader title="This page is not loaded" />
      <EmptyState
        icon={IconReload}
        title="A part of the page cannot be loaded"
        action={
          <ActionButton variant="default" onClick={() => window.location.reload()}>
            Load again
          </ActionButton>
        }
      >
        {away
          ? "The daemon does not answer. The page is loaded again by itself when it is back."
          : "Penstock may have been updated since this page was opened, or did not answer for a moment."}
      </EmptyState>
    </>
  );
}
