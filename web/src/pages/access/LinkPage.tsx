/**
 * Pages of one-time links: the first administrator, and a new password. The code is behind `#`,
 * which a browser sends to nobody; the page puts it into the body of one request.
 */

import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Link, useLocation } from "wouter";
import { api, unwrap } from "../../api/client";
import { ProblemBox } from "../../ui/ProblemBox";
import { AccessFrame } from "./AccessFrame";
import classes from "./AccessFrame.module.css";
import { PASSWORD_MIN, STRENGTH_WORDS, strengthOf } from "./strength";

type Kind = "setup" | "invitation";

const NAME = /^[a-z0-9][a-z0-9_-]{0,62}$/;

export function LinkPage({ kind }: { kind: Kind }) {
  const [code] = useState(() => window.location.hash.slice(1));
  const title = kind === "setup" ? "Set up the first administrator" : "Choose your password";
  if (code === "") {
    return (
      <AccessFrame title={title}>
        <p className={classes.note}>
          The link is incomplete: the code behind <code>#</code> is missing. Copy all of it, or make
          a new one with{" "}
          <code>{kind === "setup" ? "penstock web setup" : "penstock user invite NAME"}</code>.
        </p>
        <p className={classes.foot}>
          <Link href="/login">To the log-in</Link>
        </p>
      </AccessFrame>
    );
  }
  return (
    <AccessFrame
      title={title}
      subtitle={
        kind === "setup"
          ? `You will manage the users of ${window.location.hostname}. The link can be used once.`
          : "It is for this site only, and the link can be used once."
      }
    >
      <LinkForm kind={kind} code={code} />
    </AccessFrame>
  );
}

function LinkForm({ kind, code }: { kind: Kind; code: string }) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [again, setAgain] = useState("");
  const [tried, setTried] = useState(false);
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const send = useMutation({
    mutationFn: () =>
      kind === "setup"
        ? unwrap(api.POST("/api/v1/auth/setup", { body: { code, name, password } }))
        : unwrap(api.POST("/api/v1/auth/invitation", { body: { code, password } })),
    onSuccess: () => {
      queries.clear();
      navigate("/", { replace: true });
    },
  });
  const isShort = [...password].length < PASSWORD_MIN;
  const wrongName = kind === "setup" && !NAME.test(name);
  const differs = password !== again;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (!isShort && !wrongName && !differs) {
      send.mutate();
    }
  };
  return (
    <form className={classes.form} onSubmit={submit} noValidate>
      {kind === "setup" && (
        <TextInput
          label="Name"
          description="Small letters, digits, - and _"
          name="username"
          autoComplete="username"
          autoCapitalize="none"
          spellCheck={false}
          value={name}
          onChange={(event) => setName(event.currentTarget.value.trim().toLowerCase())}
          error={tried && wrongName ? "Choose a name, such as anna" : undefined}
        />
      )}
      <NewPassword value={password} onChange={setPassword} error={tried && isShort} />
      <PasswordInput
        label="The same again"
        name="password-again"
        autoComplete="new-password"
        visibilityToggleButtonProps={{ "aria-label": "Show the password" }}
        value={again}
        onChange={(event) => setAgain(event.currentTarget.value)}
        error={
          (tried || again.length >= password.length) && again && differs ? "They differ" : null
        }
      />
      {send.error !== null && <ProblemBox error={send.error} />}
      <Button type="submit" loading={send.isPending} fullWidth>
        {kind === "setup" ? "Make the administrator" : "Set the password"}
      </Button>
    </form>
  );
}

interface NewPasswordProps {
  value: string;
  onChange: (value: string) => void;
  error: boolean;
}

function NewPassword({ value, onChange, error }: NewPasswordProps) {
  const strength = strengthOf(value);
  return (
    <div>
      <PasswordInput
        label="Password"
        name="password"
        autoComplete="new-password"
        visibilityToggleButtonProps={{ "aria-label": "Show the password" }}
        value={value}
        onChange={(event) => onChange(event.currentTarget.value)}
        error={error}
      />
      <div className={classes.strength} data-level={strength} aria-hidden>
        <i />
        <i />
        <i />
      </div>
      <p className={classes.strengthWord} aria-live="polite">
        {STRENGTH_WORDS[strength]}
      </p>
    </div>
  );
}
