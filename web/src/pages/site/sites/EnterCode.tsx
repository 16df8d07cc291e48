/** Takes a code of the other site: shows whose it is, and pairs once that is confirmed. */

import { Button, Textarea } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { ActionButton } from "../../../ui/ActionButton";
import { Fingerprint } from "../../../ui/Fingerprint";
import { IconOk } from "../../../ui/icons";
import { LinkTo } from "../../../ui/LinkTo";
import { ProblemBox } from "../../../ui/ProblemBox";
import { readPairingToken } from "./pairing-token";
import classes from "./SitesPage.module.css";

export function EnterCode({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const token = readPairingToken(text);
  const queries = useQueryClient();
  const pair = useMutation({
    mutationFn: () => unwrap(api.POST("/api/v1/pairings", { body: { token: text.trim() } })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: keys.sites }),
  });
  if (pair.data) {
    const { site } = pair.data;
    return (
      <div className={classes.step}>
        <p className={classes.good} role="status">
          <IconOk size={20} aria-hidden /> Paired with {site.name}
        </p>
        <p>
          Next: say what {site.name} may do with stores of this site, and test the paths. Both are
          on its page.
        </p>
        <div className="dialog-actions">
          <Button variant="default" onClick={onClose}>
            Close
          </Button>
          <LinkTo to={`/sites/${site.name}`} className="button-link">
            Open {site.name}
          </LinkTo>
        </div>
      </div>
    );
  }
  const wrong = text.trim() !== "" && token === null;
  return (
    <div className={classes.step}>
      <Textarea
        label="Code of the other site"
        placeholder="pst1:…"
        data-autofocus
        rows={3}
        spellCheck={false}
        autoComplete="off"
        value={text}
        error={wrong && "This is not a whole code: it begins with pst1:, copy all of it"}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      {token && (
        <div>
          <p className={classes.label}>
            The site at {token.address} has this fingerprint. Does it show the same words there?
          </p>
          <Fingerprint hex={token.fingerprint} of="the other site" />
        </div>
      )}
      {pair.error !== null && <ProblemBox error={pair.error} />}
      <div className="dialog-actions">
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <ActionButton
          disabled={token === null}
          loading={pair.isPending}
          onClick={() => pair.mutate()}
        >
          They are the same: pair
        </ActionButton>
      </div>
    </div>
  );
}
