/** Says that there is no contact, since when, and when the next try is. */

import { Button } from "@mantine/core";
import { useEffect, useState } from "react";
import { useLive, useLiveSource } from "../api/live-context";
import { formatClock } from "../ui/format";
import { IconAlert } from "../ui/icons";
import classes from "./ContactBanner.module.css";

/** A shorter loss is not worth a word: the stream is back before it is read. */
const GRACE_MS = 3_000;

export function ContactBanner() {
  const { contact, since, nextTry } = useLive();
  const live = useLiveSource();
  const [, setTick] = useState(0);
  const away = contact === "lost" || contact === "electing" || contact === "connecting";
  useEffect(() => {
    if (!away) {
      return;
    }
    const timer = window.setInterval(() => setTick((tick) => tick + 1), 500);
    return () => window.clearInterval(timer);
  }, [away]);
  const shown = away && Date.now() - since >= GRACE_MS;
  const wait = nextTry === null ? 0 : Math.ceil((nextTry - Date.now()) / 1_000);
  return (
    <div role="status" aria-live="polite">
      {shown && (
        <div className={classes.banner}>
          <IconAlert size={18} aria-hidden />
          <p className={classes.words}>
            <b>
              {contact === "electing"
                ? `The site has had no controller since ${formatClock(since)}: it elects one.`
                : `No contact with ${window.location.host} since ${formatClock(since)}.`}
            </b>{" "}
            What you see is from then. <span aria-hidden>{next(wait)}</span>
          </p>
          <Button size="compact-sm" variant="default" onClick={live.tryNow}>
            Try now
          </Button>
        </div>
      )}
    </div>
  );
}

function next(seconds: number): string {
  return seconds > 0 ? `Next try in ${seconds} s.` : "Trying…";
}
