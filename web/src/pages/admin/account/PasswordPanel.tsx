/** Changes the caller's password. */

import { PasswordInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, unwrap } from "../../../api/client";
import { ActionButton } from "../../../ui/ActionButton";
import { Panel } from "../../../ui/Panel";
import { ProblemBox } from "../../../ui/ProblemBox";
import classes from "./AccountPage.module.css";

/** As the daemon has it. */
const CHARS_MIN = 12;

const EMPTY = { current: "", password: "", again: "" };

export function PasswordPanel({ user }: { user: string }) {
  const [draft, setDraft] = useState(EMPTY);
  const change = useMutation({
    mutationFn: () => {
      const { current, password } = draft;
      const params = { path: { name: user } };
      const body = { current, password };
      return unwrap(api.PUT("/api/v1/users/{name}/password", { params, body }));
    },
    onSuccess: () => {
      setDraft(EMPTY);
      notifications.show({ message: "Your password is changed. Your other sessions have ended." });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change.mutate();
  };
  const short = draft.password !== "" && [...draft.password].length < CHARS_MIN;
  const differ = draft.again !== "" && draft.again !== draft.password;
  const complete = draft.current !== "" && !short && !differ && draft.again !== "";
  const field = (key: keyof typeof EMPTY, label: string, error: string | false) => (
    <PasswordInput
      label={label}
      autoComplete={key === "current" ? "current-password" : "new-password"}
      visibilityToggleButtonProps={{ "aria-label": `Show: ${label}` }}
      error={error}
      value={draft[key]}
      onChange={(event) => setDraft({ ...draft, [key]: event.currentTarget.value })}
    />
  );
  return (
    <Panel title="Password">
      <form className={classes.password} onSubmit={submit}>
        <input type="hidden" name="username" autoComplete="username" value={user} />
        {field("current", "Present password", false)}
        {field("password", "New password", short && `At least ${CHARS_MIN} characters`)}
        {field("again", "The same again", differ && "They differ")}
        {change.error !== null && <ProblemBox error={change.error} />}
        <div>
          <ActionButton
            type="submit"
            variant="default"
            loading={change.isPending}
            disabled={!complete}
          >
            Change password
          </ActionButton>
        </div>
      </form>
    </Panel>
  );
}
