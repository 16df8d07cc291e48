/** Shows a code for the other site, and sees when that site has used it. */

import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { api, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { CommandBox } from "../../../ui/Copy";
import { Fingerprint } from "../../../ui/Fingerprint";
import { IconOk } from "../../../ui/icons";
import { LinkTo } from "../../../ui/LinkTo";
import { Loaded } from "../../../ui/Loaded";
import { Moment } from "../../../ui/Quantity";
import classes from "./SitesPage.module.css";

/** Time between two looks for the other site, in milliseconds. */
const LOOK_MS = 1_500;

/** Returns the sites that were paired after this was first asked. */
function useNewcomers() {
  const sites = useQuery({
    queryKey: keys.sites,
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/sites", { signal })),
    refetchInterval: LOOK_MS,
  });
  const before = useRef<Set<string> | null>(null);
  const items = sites.data?.items;
  if (before.current === null && items !== undefined) {
    before.current = new Set(items.map((site) => site.name));
  }
  return (items ?? []).filter((site) => before.current?.has(site.name) === false);
}

export function GiveCode({ onClose }: { onClose: () => void }) {
  const offer = useQuery({
    queryKey: ["pairing-offer"],
    queryFn: () => unwrap(api.POST("/api/v1/pairing-offers")),
    // A second one would replace the code that was perhaps sent already.
    staleTime: "static",
    gcTime: 0,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
  const [newcomer] = useNewcomers();
  if (newcomer) {
    return (
      <div className={classes.step}>
        <p className={classes.good} role="status">
          <IconOk size={20} aria-hidden /> Paired with {newcomer.name}
        </p>
        <div>
          <p className={classes.label}>
            The operators of {newcomer.name} see the same words there:
          </p>
          <Fingerprint hex={newcomer.fingerprint} of={newcomer.name} />
        </div>
        <p className="dim">
          They differ? Then it is another site:{" "}
          <LinkTo to={`/sites/${newcomer.name}`} className="inline-link">
            open it
          </LinkTo>{" "}
          and unpair.
        </p>
        <div className="dialog-actions">
          <Button onClick={onClose}>They are the same</Button>
        </div>
      </div>
    );
  }
  return (
    <Loaded query={offer}>
      {({ token, fingerprint, expires_at }) => (
        <div className={classes.step}>
          <div>
            <p className={classes.label}>Code: whoever has it can pair with this site</p>
            <CommandBox command={token} label="Copy the code" />
          </div>
          <div>
            <p className={classes.label}>
              Fingerprint of this site, which the other site shows too
            </p>
            <Fingerprint hex={fingerprint} of="this site" />
          </div>
          <p className={classes.waits} role="status">
            Waiting for the other site. The code expires <Moment at={expires_at} />.
          </p>
        </div>
      )}
    </Loaded>
  );
}
