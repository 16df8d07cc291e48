/** Makes a directory in the one that is shown. */

import { Button, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useLocation } from "wouter";
import { api, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { useStatus } from "../../../api/queries";
import { ActionButton } from "../../../ui/ActionButton";
import { Dialog } from "../../../ui/Dialog";
import { ProblemBox } from "../../../ui/ProblemBox";
import { below, browseAt } from "./place";

interface Props {
  site: string;
  store: string;
  path: string;
  opened: boolean;
  onClose: () => void;
}

export function NewDirectory({ opened, onClose, ...place }: Props) {
  return (
    <Dialog opened={opened} onClose={onClose} title="New directory">
      <DirectoryForm {...place} onClose={onClose} />
    </Dialog>
  );
}

function DirectoryForm({ site, store, path, onClose }: Omit<Props, "opened">) {
  const own = useStatus().data?.site.name === site;
  const [name, setName] = useState("");
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const make = useMutation({
    mutationFn: () => {
      const body = { path: below(path, name.trim()) };
      return own
        ? unwrap(
            api.POST("/api/v1/stores/{store}/directories", { params: { path: { store } }, body }),
          )
        : unwrap(
            api.POST("/api/v1/sites/{site}/stores/{store}/directories", {
              params: { path: { site, store } },
              body,
            }),
          );
    },
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: keys.stores });
      onClose();
      navigate(browseAt(site, store, below(path, name.trim())));
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name.trim() !== "") {
      make.mutate();
    }
  };
  return (
    <form onSubmit={submit} className="dialog-form">
      <TextInput
        label="Name"
        description={`In ${site}:${store}/${path}`}
        data-autofocus
        autoComplete="off"
        spellCheck={false}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      {make.error !== null && <ProblemBox error={make.error} />}
      <div className="dialog-actions">
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <ActionButton type="submit" loading={make.isPending} disabled={name.trim() === ""}>
          Make directory
        </ActionButton>
      </div>
    </form>
  );
}
