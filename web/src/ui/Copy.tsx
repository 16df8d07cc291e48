/** Buttons and boxes that copy a text. */

import { ActionIcon, Tooltip } from "@mantine/core";
import { Fragment, useEffect, useState } from "react";
import classes from "./Copy.module.css";
import { IconCheck, IconCopy } from "./icons";

/** Copies a text; returns false where the browser does not let it. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

type Copied = "no" | "yes" | "denied";

/** Copies a text, and says for two seconds that it did. */
export function useCopied(): [Copied, (text: string) => void] {
  const [copied, setCopied] = useState<Copied>("no");
  useEffect(() => {
    if (copied === "no") {
      return;
    }
    const timer = window.setTimeout(() => setCopied("no"), 2_000);
    return () => window.clearTimeout(timer);
  }, [copied]);
  const copy = (text: string) => {
    void copyText(text).then((done) => setCopied(done ? "yes" : "denied"));
  };
  return [copied, copy];
}

/** The words of a button that copies. */
export function copyWords(copied: Copied, before: string): string {
  return { no: before, yes: "Copied", denied: "Select it and copy" }[copied];
}

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [copied, copy] = useCopied();
  const words = copyWords(copied, label);
  return (
    <Tooltip label={words} position="top">
      <ActionIcon variant="subtle" color="gray" aria-label={words} onClick={() => copy(text)}>
        {copied === "yes" ? <IconCheck size={16} /> : <IconCopy size={16} />}
      </ActionIcon>
    </Tooltip>
  );
}

interface CommandProps {
  command: string;
  /** Where to type it, if that is not obvious: `at the other site`. */
  where?: string;
  label?: string;
}

/** A command of the shell, with a button that copies it. */
export function CommandBox({ command, where, label }: CommandProps) {
  // A line is broken between words only, so that no option is torn at its hyphens.
  const words = command.split(" ").map((word, place) => ({ word, key: `${place} ${word}` }));
  return (
    <div className={classes.command}>
      <div className={classes.text}>
        {where !== undefined && <span className={classes.where}>{where}</span>}
        <code>
          {words.map(({ word, key }, place) => (
            <Fragment key={key}>
              {place > 0 && " "}
              <span className={classes.word}>{word}</span>
            </Fragment>
          ))}
        </code>
      </div>
      <CopyButton text={command} label={label ?? "Copy the command"} />
    </div>
  );
}
