/** The ways of a log-in that the site has: at its provider, and by name and password. */

import { Button } from "@mantine/core";
import { useMethods } from "../../api/queries";
import { at } from "../../base";
import classes from "./AccessFrame.module.css";
import { LoginForm } from "./LoginForm";

interface Props {
  /** The name that is filled in. */
  name?: string;
  /** Path of the host to which the provider leads back. */
  back: string;
  onDone: (user: string) => void;
}

export function LoginWays({ name, back, onDone }: Props) {
  const query = useMethods();
  const provider = query.data?.oidc;
  const takesPasswords = query.data?.password ?? query.isError;
  return (
    <>
      {provider && (
        <div className={classes.form}>
          <Button
            component="a"
            href={`${at(provider.start)}?return=${encodeURIComponent(back)}`}
            fullWidth
          >
            Log in with {provider.name}
          </Button>
        </div>
      )}
      {provider && takesPasswords && <p className={classes.or}>or with a password</p>}
      {takesPasswords && (
        <LoginForm name={name} onDone={onDone} isSecond={provider !== undefined} />
      )}
    </>
  );
}
