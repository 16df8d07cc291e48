/** A dialog over the page, with a title. It adds no style at run time and no landmark. */

import { Modal, type ModalRootProps } from "@mantine/core";
import type { ReactNode } from "react";
import classes from "./Dialog.module.css";

interface Props {
  opened: boolean;
  onClose: () => void;
  title: ReactNode;
  /** False where the page cannot be used until a decision: then Escape does nothing, either. */
  closable?: boolean;
  /** True where a click beside it must not close it: it shows or holds what is there once. */
  careful?: boolean;
  size?: ModalRootProps["size"];
  children: ReactNode;
}

export function Dialog({
  opened,
  onClose,
  title,
  closable = true,
  careful,
  size,
  children,
}: Props) {
  return (
    <Modal.Root
      opened={opened}
      onClose={onClose}
      closeOnEscape={closable}
      closeOnClickOutside={closable && !careful}
      lockScroll={false}
      centered
      size={size}
    >
      <Modal.Overlay />
      <Modal.Content>
        <div className={classes.head}>
          <Modal.Title className={classes.title}>{title}</Modal.Title>
          {closable && <Modal.CloseButton aria-label="Close" />}
        </div>
        <Modal.Body className={classes.body}>{children}</Modal.Body>
      </Modal.Content>
    </Modal.Root>
  );
}
