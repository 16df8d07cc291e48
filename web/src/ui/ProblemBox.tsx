/** An error: what failed, why, what to do next, and its details for whoever helps. */

import { Button } from "@mantine/core";
import { problemOf } from "../api/problem";
import { copyWords, useCopied } from "./Copy";
import { sentence } from "./format";
import { IconCopy, IconFailed, IconRetry } from "./icons";
import classes from "./ProblemBox.module.css";

interface Props {
  error: unknown;
  /** What to do again; offered where the same may succeed later. */
  onRetry?: () => void;
}

export function ProblemBox({ error, onRetry }: Props) {
  const [copied, copy] = useCopied();
  const problem = problemOf(error);
  const details = () => {
    const fields = { ...problem, page: window.location.pathname, at: new Date().toISOString() };
    copy(JSON.stringify(fields, null, 2));
  };
  const same = problem.detail.toLowerCase() === problem.title.toLowerCase();
  return (
    <div className={classes.box} role="alert">
      <IconFailed size={20} aria-hidden className={classes.icon} />
      <div className={classes.words}>
        <p className={classes.title}>{sentence(problem.title)}</p>
        {!same && problem.detail !== "" && <p>{sentence(problem.detail)}.</p>}
        {problem.cause !== "" && <p className="dim">Cause: {problem.cause}</p>}
        {problem.errors?.map((fault) => (
          <p key={fault.pointer + fault.detail}>
            <code>{fault.pointer}</code>: {fault.detail}
          </p>
        ))}
        {problem.hint !== "" && <p className={classes.hint}>{sentence(problem.hint)}.</p>}
        <div className={classes.actions}>
          {onRetry && problem.retryable && (
            <Button
              size="compact-sm"
              variant="default"
              leftSection={<IconRetry size={15} />}
              onClick={onRetry}
            >
              Try again
            </Button>
          )}
          <Button
            size="compact-sm"
            variant="subtle"
            color="gray"
            leftSection={<IconCopy size={15} />}
            onClick={details}
          >
            {copyWords(copied, "Copy details")}
          </Button>
        </div>
      </div>
    </div>
  );
}
