/** The menu: a rail at the left, or a bar at the bottom of a narrow screen. */

import { Drawer } from "@mantine/core";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import type { MenuEntry, PageRoute } from "../routes";
import { IconMore } from "../ui/icons";
import { Logo } from "./Logo";
import classes from "./Menu.module.css";

interface Item extends MenuEntry {
  path: string;
}

const GROUPS: MenuEntry["group"][] = ["work", "site", "admin"];
/** Entries of the bar at the bottom beside `More`. */
const BAR_MAX = 4;

function itemsOf(routes: PageRoute[]): Item[] {
  return routes
    .flatMap((route) => (route.menu ? [{ ...route.menu, path: route.path }] : []))
    .sort((a, b) => GROUPS.indexOf(a.group) - GROUPS.indexOf(b.group) || a.order - b.order);
}

/** Returns whether a page is the one of an entry, or lies below it. */
function isHere(item: Item, items: Item[], path: string): boolean {
  const fits = (one: Item) =>
    one.path === "/" ? path === "/" : path === one.path || path.startsWith(`${one.path}/`);
  const best = items
    .filter(fits)
    .sort((a, b) => b.path.length - a.path.length)
    .at(0);
  return best?.path === item.path;
}

export function Rail({ routes }: { routes: PageRoute[] }) {
  const items = itemsOf(routes);
  const [path] = useLocation();
  return (
    <nav className={classes.rail} aria-label="Pages">
      <Link href="/" className={classes.brand} aria-label="Penstock, to the overview">
        <Logo size={26} />
        <span className={classes.label}>Penstock</span>
      </Link>
      {GROUPS.map((group) => {
        const here = items.filter((item) => item.group === group);
        return (
          here.length > 0 && (
            <ul key={group} className={classes.group} data-group={group}>
              {here.map((item) => (
                <li key={item.path}>
                  <Entry item={item} here={isHere(item, items, path)} />
                </li>
              ))}
            </ul>
          )
        );
      })}
    </nav>
  );
}

interface EntryProps {
  item: Item;
  here: boolean;
  onClick?: () => void;
}

function Entry({ item, here, onClick }: EntryProps) {
  const { icon: Icon, badge: Badge, label, path } = item;
  return (
    <Link
      href={path}
      className={classes.entry}
      aria-current={here ? "page" : undefined}
      title={label}
      onClick={onClick}
    >
      <Icon size={19} stroke={1.7} aria-hidden />
      <span className={classes.label}>{label}</span>
      {Badge && (
        <span className={classes.badge}>
          <Badge />
        </span>
      )}
    </Link>
  );
}

export function BottomBar({ routes }: { routes: PageRoute[] }) {
  const items = itemsOf(routes);
  const [path] = useLocation();
  const [open, setOpen] = useState(false);
  const fits = items.length <= BAR_MAX + 1;
  const bar = fits ? items : items.slice(0, BAR_MAX);
  const rest = fits ? [] : items.slice(BAR_MAX);
  return (
    <nav className={classes.bar} aria-label="Pages">
      {bar.map((item) => (
        <Entry key={item.path} item={item} here={isHere(item, items, path)} />
      ))}
      {rest.length > 0 && (
        <button
          type="button"
          className={classes.entry}
          aria-expanded={open}
          data-here={rest.some((item) => isHere(item, items, path)) || undefined}
          onClick={() => setOpen(true)}
        >
          <IconMore size={19} stroke={1.7} aria-hidden />
          <span className={classes.label}>More</span>
        </button>
      )}
      <Drawer
        opened={open}
        onClose={() => setOpen(false)}
        position="bottom"
        size="auto"
        title="More pages"
        lockScroll={false}
      >
        <ul className={classes.sheet}>
          {rest.map((item) => (
            <li key={item.path}>
              <Entry item={item} here={isHere(item, items, path)} onClick={() => setOpen(false)} />
            </li>
          ))}
        </ul>
      </Drawer>
    </nav>
  );
}
