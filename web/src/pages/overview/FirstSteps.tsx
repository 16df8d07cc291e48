/** What to do at a new site, in three steps with their commands. */

import type { ReactNode } from "react";
import { CommandBox } from "../../ui/Copy";
import { LinkTo, useReaches } from "../../ui/LinkTo";
import { Panel } from "../../ui/Panel";
import classes from "./FirstSteps.module.css";

export function FirstSteps({ site }: { site: string }) {
  const reaches = useReaches();
  return (
    <Panel title="Begin here">
      <ol className={classes.steps}>
        <Step
          title="Pair with another site"
          text="It prints a token, which the other site takes. Both show fingerprints: compare them."
          link={reaches("/sites") && <LinkTo to="/sites">Pair on the page</LinkTo>}
        >
          <CommandBox where="here" command="penstock site pair" />
          <CommandBox where="at the other site" command="penstock site pair -" />
        </Step>
        <Step
          title="Check the paths"
          text="It tests each way between the hosts of both sites, and says what is in the way."
        >
          <CommandBox command="penstock site paths OTHER" />
        </Step>
        <Step
          title="Move something small"
          text="A transfer is done when each file is verified and durable at the target."
          link={reaches("/new") && <LinkTo to="/new">New transfer</LinkTo>}
        >
          <CommandBox command={`penstock transfer submit ${site}:STORE/PATH OTHER:STORE/ --wait`} />
        </Step>
      </ol>
    </Panel>
  );
}

interface StepProps {
  title: string;
  text: string;
  link?: ReactNode;
  children: ReactNode;
}

function Step({ title, text, link, children }: StepProps) {
  return (
    <li className={classes.step}>
      <h3 className={classes.title}>{title}</h3>
      <p className="dim">{text}</p>
      <div className={classes.commands}>{children}</div>
      {link}
    </li>
  );
}
