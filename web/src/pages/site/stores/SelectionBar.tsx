/** What is selected in a directory, and the transfer that can begin with it. */

import { Button } from "@mantine/core";
import { useRight } from "../../../api/queries";
import { formatBytes, formatCount } from "../../../ui/format";
import { IconNew } from "../../../ui/icons";
import { LinkTo, useReaches } from "../../../ui/LinkTo";
import classes from "./BrowserPage.module.css";
import type { Choice } from "./EntryTable";
import { transferOf } from "./place";

interface Props {
  site: string;
  store: string;
  path: string;
  chosen: ReadonlyMap<string, Choice>;
  onClear: () => void;
}

export function SelectionBar({ site, store, path, chosen, onClear }: Props) {
  const maySubmit = useRight("submit");
  const reaches = useReaches();
  if (chosen.size === 0) {
    return null;
  }
  const to = transferOf(site, store, path, [...chosen.keys()]);
  return (
    <section className={classes.bar} aria-label="Selection">
      <p role="status">{selectionWords([...chosen.values()])}</p>
      <Button variant="default" onClick={onClear}>
        Clear
      </Button>
      {maySubmit && reaches(to) && (
        <LinkTo to={to} className="button-link">
          <IconNew size={17} aria-hidden /> New transfer from these
        </LinkTo>
      )}
    </section>
  );
}

/** Returns a selection in words. The sizes of directories are not known. */
export function selectionWords(chosen: readonly Choice[]): string {
  const directories = chosen.filter((one) => one.isDirectory).length;
  const files = chosen.length - directories;
  const count = (number: number, one: string, many: string) =>
    number === 0 ? [] : [`${formatCount(number)} ${number === 1 ? one : many}`];
  const bytes = chosen.reduce((sum, one) => sum + one.bytes, 0);
  return [
    ...count(directories, "directory", "directories"),
    ...count(files, "file", "files"),
    ...(bytes > 0 ? [formatBytes(bytes)] : []),
  ].join(" · ");
}
