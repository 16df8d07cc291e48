/** Search by the keyboard: type, choose by the arrows, and press Enter. */

import { Modal, TextInput } from "@mantine/core";
import { type ComponentType, useState } from "react";
import { useLocation } from "wouter";
import type { PageRoute } from "../routes";
import { IconSearch } from "../ui/icons";
import classes from "./SearchDialog.module.css";
import { useFound } from "./search";

export interface Found {
  key: string;
  label: string;
  /** The kind of the thing, or its path. */
  note: string;
  to: string;
  icon: ComponentType<{ size?: number; "aria-hidden"?: boolean }>;
}

interface Props {
  routes: PageRoute[];
  opened: boolean;
  onClose: () => void;
}

export function SearchDialog({ routes, opened, onClose }: Props) {
  return (
    <Modal.Root opened={opened} onClose={onClose} lockScroll={false} yOffset="12vh">
      <Modal.Overlay />
      <Modal.Content aria-label="Search">
        <SearchBox routes={routes} onClose={onClose} />
      </Modal.Content>
    </Modal.Root>
  );
}

function SearchBox({ routes, onClose }: Omit<Props, "opened">) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [, navigate] = useLocation();
  const found = useFound(routes, text);
  const chosen = Math.min(at, found.length - 1);
  const go = (one: Found | undefined) => {
    if (one) {
      onClose();
      navigate(one.to);
    }
  };
  const press = (event: React.KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setAt((chosen + step + found.length) % Math.max(1, found.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      go(found[chosen]);
    }
  };
  return (
    <>
      <TextInput
        data-autofocus
        size="md"
        variant="unstyled"
        className={classes.input}
        leftSection={<IconSearch size={18} aria-hidden />}
        placeholder="A page, a transfer, a site"
        aria-label="Search"
        role="combobox"
        aria-expanded
        aria-controls="search-results"
        aria-activedescendant={found[chosen] ? `search-${chosen}` : undefined}
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={press}
      />
      <div id="search-results" role="listbox" aria-label="Results" className={classes.list}>
        {found.map((one, index) => {
          const Icon = one.icon;
          return (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the input
            <div
              key={one.key}
              id={`search-${index}`}
              role="option"
              tabIndex={-1}
              aria-selected={index === chosen}
              className={classes.option}
              onMouseMove={() => setAt(index)}
              onClick={() => go(one)}
            >
              <Icon size={17} aria-hidden />
              <span className={classes.label}>{one.label}</span>
              <span className={classes.note}>{one.note}</span>
            </div>
          );
        })}
      </div>
      {found.length === 0 && <p className={classes.none}>Nothing fits “{text}”.</p>}
    </>
  );
}
