/** Shows a fault of a page in its place: the frame around it stays usable. */

import { Button } from "@mantine/core";
import { Component, type ReactNode } from "react";
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
