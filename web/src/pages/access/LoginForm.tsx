/** Name and password: on the page of the log-in, and over any page when a session is over. */

import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { api, unwrap } from "../../api/client";
import { ProblemError } from "../../api/problem";
import { ProblemBox } from "../../ui/ProblemBox";
import classes from "./AccessFrame.module.css";

interface Props {
  /** The name that is filled in. */
  name?: string;
  /** True beside another way that is usual at this site. */
  isSecond?: boolean;
  onDone: (user: string) => void;
}

export function LoginForm({ name: initial = "", isSecond = false, onDone }: Props) {
  const [name, setName] = useState(initial);
  const [password, setPassword] = useState("");
  const logIn = useMutation({
    mutationFn: () => unwrap(api.POST("/api/v1/sessions", { body: { name, password } })),
    onSuccess: (session) => onDone(session.user),
  });
  const wait = useWait(logIn.error);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name !== "" && password !== "") {
      logIn.mutate();
    }
  };
  return (
    <form className={classes.form} onSubmit={submit}>
      <TextInput
        label="Name"
        name="username"
        autoComplete="username"
        autoCapitalize="none"
        spellCheck={false}
        required
        withAsterisk={false}
        data-autofocus={initial === "" || undefined}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <PasswordInput
        label="Password"
        name="password"
        autoComplete="current-password"
        required
        withAsterisk={false}
        data-autofocus={initial !== "" || undefined}
        visibilityToggleButtonProps={{ "aria-label": "Show the password" }}
        value={password}
        onChange={(event) => setPassword(event.currentTarget.value)}
      />
      {logIn.error !== null && <ProblemBox error={logIn.error} />}
      <Button
        type="submit"
        variant={isSecond ? "default" : "filled"}
        loading={logIn.isPending}
        disabled={wait > 0}
        fullWidth
      >
        {wait > 0 ? `Log in, in ${wait} s` : "Log in"}
      </Button>
    </form>
  );
}

/** Returns the seconds until the daemon takes another try, as its last answer says. */
export function useWait(error: unknown): number {
  const [until, setUntil] = useState(0);
  const [now, setNow] = useState(0);
  useEffect(() => {
    const seconds = error instanceof ProblemError ? (error.problem.retry_after_s ?? 0) : 0;
    const begun = Date.now();
    setNow(begun);
    setUntil(begun + seconds * 1_000);
    if (seconds > 0) {
      const timer = window.setInterval(() => setNow(Date.now()), 250);
      return () => window.clearInterval(timer);
    }
  }, [error]);
  return Math.max(0, Math.ceil((until - now) / 1_000));
}
