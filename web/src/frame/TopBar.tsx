/** The bar at the top: the site, its rates, the stream, search, colours, and the user. */

import { ActionIcon, Menu, Tooltip, useMantineColorScheme } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useEffect, useState } from "react";
import { useLocation } from "wouter";
import { api, unwrap } from "../api/client";
import type { Contact } from "../api/live";
import { useLive } from "../api/live-context";
import { isLoggedOut, problemOf } from "../api/problem";
import { useMe, useStatus } from "../api/queries";
import { at } from "../base";
import type { PageRoute } from "../routes";
import { formatClock } from "../ui/format";
import {
  IconDark,
  IconDevice,
  IconDown,
  IconIn,
  IconLight,
  IconLogOut,
  IconOut,
  IconSearch,
  IconUser,
} from "../ui/icons";
import { useReaches } from "../ui/LinkTo";
import { Rate } from "../ui/Quantity";
import { Logo } from "./Logo";
import { SearchDialog } from "./SearchDialog";
import classes from "./TopBar.module.css";

export function TopBar({ routes }: { routes: PageRoute[] }) {
  const status = useStatus().data;
  return (
    <header className={classes.bar}>
      <span className={classes.mark}>
        <Logo size={24} />
      </span>
      <span
        className={classes.site}
        title={status && `site ${status.site.name}, peer ${status.peer}`}
      >
        {status?.site.name ?? window.location.hostname}
        {status && <span className={classes.peer}>{status.peer}</span>}
      </span>
      <SiteRates />
      <StreamDot />
      <div className={classes.right}>
        <Search routes={routes} />
        <ColourMenu />
        <UserMenu />
      </div>
    </header>
  );
}

function SiteRates() {
  const { rates, contact } = useLive();
  const known = contact === "live" || contact === "behind";
  return (
    <span className={classes.rates}>
      <span className={classes.rate} data-idle={rates.in === 0 || undefined}>
        <IconIn size={15} aria-label="in" />
        {known ? <Rate value={rates.in} /> : "–"}
      </span>
      <span className={classes.rate} data-idle={rates.out === 0 || undefined}>
        <IconOut size={15} aria-label="out" />
        {known ? <Rate value={rates.out} /> : "–"}
      </span>
    </span>
  );
}

const DOT: Record<Contact, [word: string, tone: string, long: string]> = {
  connecting: ["connecting", "dim", "The page connects to the stream of events."],
  live: ["live", "ok", "Figures are of this second."],
  behind: ["behind", "warn", "Nothing was heard for a while: figures may be old."],
  lost: ["no contact", "bad", "The daemon does not answer."],
  electing: ["no controller", "warn", "The site elects a controller."],
};

function StreamDot() {
  const { contact, since } = useLive();
  const [word, tone, long] = DOT[contact];
  return (
    <Tooltip label={`${long} Since ${formatClock(since)}.`}>
      <span className={classes.stream} data-tone={tone}>
        <i aria-hidden />
        {word}
      </span>
    </Tooltip>
  );
}

function Search({ routes }: { routes: PageRoute[] }) {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const types = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable;
      const isShortcut = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k";
      if (isShortcut || (event.key === "/" && !types && !event.ctrlKey && !event.altKey)) {
        event.preventDefault();
        setOpen(true);
      }
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
  return (
    <>
      <button type="button" className={classes.search} onClick={() => setOpen(true)}>
        <IconSearch size={16} aria-hidden />
        <span className={classes.searchWord}>Search</span>
        <kbd className={classes.key}>Ctrl K</kbd>
      </button>
      <SearchDialog routes={routes} opened={open} onClose={() => setOpen(false)} />
    </>
  );
}

function ColourMenu() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const entries = [
    ["light", "Light", IconLight],
    ["dark", "Dark", IconDark],
    ["auto", "As the system", IconDevice],
  ] as const;
  const Now = entries.find(([value]) => value === colorScheme)?.[2] ?? IconDevice;
  return (
    <Menu>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="lg" aria-label="Colours">
          <Now size={19} stroke={1.7} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {entries.map(([value, label, Icon]) => (
          <Menu.Item
            key={value}
            leftSection={<Icon size={16} />}
            aria-current={value === colorScheme || undefined}
            fw={value === colorScheme ? 600 : undefined}
            onClick={() => setColorScheme(value)}
          >
            {label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function UserMenu() {
  const me = useMe().data;
  const reaches = useReaches();
  const [, navigate] = useLocation();
  const logOut = async () => {
    const params = { path: { id: "current" } };
    const sessions = await unwrap(api.GET("/api/v1/sessions")).catch(() => undefined);
    try {
      await unwrap(api.DELETE("/api/v1/sessions/{id}", { params }));
    } catch (error) {
      if (!isLoggedOut(error)) {
        const { title, detail } = problemOf(error);
        notifications.show({
          color: "red",
          title: "You are still logged in",
          message: detail || title,
        });
        return;
      }
    }
    // Drafts and figures are of the person that leaves.
    sessionStorage.clear();
    if (sessions?.items.some((session) => session.is_current && session.at_provider)) {
      // The session at the provider ends too, or the next log-in asks for nothing.
      window.location.assign(at("/auth/oidc/end"));
      return;
    }
    window.location.assign(at("/login?out=1"));
  };
  return (
    <Menu>
      <Menu.Target>
        <button type="button" className={classes.user}>
          <span className={classes.avatar} data-letter={me?.user.charAt(0).toUpperCase()} />
          <span className="for-readers">User </span>
          <span className={classes.name}>{me?.user}</span>
          <IconDown size={14} aria-hidden />
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          {me?.user} · {me?.role}
        </Menu.Label>
        {reaches("/account") && (
          <Menu.Item leftSection={<IconUser size={16} />} onClick={() => navigate("/account")}>
            Tokens and sessions
          </Menu.Item>
        )}
        <Menu.Item leftSection={<IconDevice size={16} />} onClick={() => navigate("/device")}>
          Authorize a program
        </Menu.Item>
        <Menu.Divider />
        <Menu.Item leftSection={<IconLogOut size={16} />} onClick={() => void logOut()}>
          Log out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
