/** A button that asks the daemon for something: off while there is no contact with it. */

import { Button, type ButtonProps } from "@mantine/core";
import type { ComponentPropsWithoutRef } from "react";
import { useCanAct } from "../api/live-context";

type Props = ButtonProps & Omit<ComponentPropsWithoutRef<"button">, keyof ButtonProps>;

export function ActionButton({ disabled, title, ...rest }: Props) {
  const can = useCanAct();
  return (
    <Button
      {...rest}
      disabled={disabled || !can}
      title={can ? title : "No contact with the daemon"}
    />
  );
}
