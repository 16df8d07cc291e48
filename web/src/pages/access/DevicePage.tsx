/** Lets a program in that has no browser (RFC 8628): it shows a code, and its user decides here. */

import { Button, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useLocation, useSearch } from "wouter";
import { api, type Schemas, unwrap } from "../../api/client";
import { keys } from "../../api/keys";
import { useMe } from "../../api/queries";
import { PROGRAM_URL } from "../../base";
import { ActionButton } from "../../ui/ActionButton";
import { IconAlert, IconCancel, IconDone } from "../../ui/icons";
import { Loaded } from "../../ui/Loaded";
import { PageHeader } from "../../ui/PageHeader";
import { Panel } from "../../ui/Panel";
import { ProblemBox } from "../../ui/ProblemBox";
import { Moment } from "../../ui/Quantity";
import { roleWords, scopeWords } from "../../words";
import classes from "./DevicePage.module.css";

type DeviceView = Schemas["DeviceView"];
type Decision = "approve" | "deny";

export function DevicePage() {
  const code = new URLSearchParams(useSearch()).get("user_code")?.trim() ?? "";
  return (
    <div className={classes.page}>
      <PageHeader
        title="Authorize a program"
        subtitle="A program that runs without a browser shows a code. It acts in your name once you allow it."
      />
      {code === "" ? <AskCode /> : <Decide code={code} key={code} />}
    </div>
  );
}

function AskCode() {
  const [text, setText] = useState("");
  const [, navigate] = useLocation();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim() !== "") {
      navigate(`/device?user_code=${encodeURIComponent(text.trim())}`);
    }
  };
  return (
    <Panel title="The code">
      <form onSubmit={submit} className={classes.ask}>
        <TextInput
          label="Code that the program shows"
          placeholder="ABCD-EFGH"
          autoComplete="off"
          autoCapitalize="characters"
          spellCheck={false}
          classNames={{ input: classes.code }}
          value={text}
          onChange={(event) => setText(event.currentTarget.value.toUpperCase())}
        />
        <Button type="submit" disabled={text.trim() === ""}>
          Continue
        </Button>
      </form>
      <p className="dim">
        On the other host: <code>penstock login {PROGRAM_URL}</code>
      </p>
    </Panel>
  );
}

function Decide({ code }: { code: string }) {
  const query = useQuery({
    queryKey: keys.device(code),
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/v1/auth/device", { params: { query: { user_code: code } }, signal })),
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
  const [done, setDone] = useState<Decision | null>(null);
  if (done !== null && query.data) {
    return <Decided decision={done} view={query.data} />;
  }
  return (
    <Panel title="Authorization request" flush>
      <Loaded query={query}>{(view) => <Question view={view} onDone={setDone} />}</Loaded>
    </Panel>
  );
}

function Question({ view, onDone }: { view: DeviceView; onDone: (done: Decision) => void }) {
  const me = useMe().data;
  const decide = useMutation({
    mutationFn: (decision: Decision) => {
      const body = { user_code: view.user_code, decision };
      return unwrap(api.POST("/api/v1/auth/device/approve", { body })).then(() => decision);
    },
    onSuccess: onDone,
  });
  return (
    <div className={classes.question}>
      <p className={classes.big}>{view.user_code}</p>
      <dl className={classes.facts}>
        <dt>Program</dt>
        <dd>{view.client || "does not say its name"}</dd>
        <dt>From</dt>
        <dd>{view.from || "an address that is not known"}</dd>
        <dt>Acts as</dt>
        <dd>
          {me?.user}, {me?.role}: {roleWords(me?.role ?? "")}
        </dd>
        <dt>May</dt>
        <dd>
          {view.scopes === undefined ? (
            "all that you may"
          ) : (
            <ul className={classes.scopes}>
              {view.scopes.map((scope) => (
                <li key={scope}>{scopeWords(scope)}</li>
              ))}
            </ul>
          )}
        </dd>
        <dt>Code ends</dt>
        <dd>
          <Moment at={view.expires_at} />
        </dd>
      </dl>
      <p className={classes.warning}>
        <IconAlert size={18} aria-hidden />
        Allow it only if you have just begun this log-in yourself, and the program shows this very
        code.
      </p>
      {decide.error !== null && <ProblemBox error={decide.error} />}
      <div className="dialog-actions">
        <ActionButton
          variant="default"
          disabled={decide.isPending}
          onClick={() => decide.mutate("deny")}
        >
          Deny
        </ActionButton>
        <ActionButton loading={decide.isPending} onClick={() => decide.mutate("approve")}>
          Allow
        </ActionButton>
      </div>
    </div>
  );
}

function Decided({ decision, view }: { decision: Decision; view: DeviceView }) {
  const user = useMe().data?.user;
  const allowed = decision === "approve";
  return (
    <Panel title={allowed ? "The program is authorized" : "The program is refused"}>
      <p className={classes.decided} role="status" data-allowed={allowed || undefined}>
        {allowed ? <IconDone size={22} aria-hidden /> : <IconCancel size={22} aria-hidden />}
        {allowed
          ? `${view.client || "The program"} at ${view.from || "the other host"} acts as ${user} ` +
            "from now on. You may close this page. Its token can be revoked at any time."
          : "It gets no token, and is told so. You may close this page."}
      </p>
    </Panel>
  );
}
