/** Pairs two sites: one gives a code, the other enters it, and both compare fingerprints. */

import { SegmentedControl } from "@mantine/core";
import { useState } from "react";
import { Dialog } from "../../../ui/Dialog";
import { EnterCode } from "./EnterCode";
import { GiveCode } from "./GiveCode";

interface Props {
  opened: boolean;
  onClose: () => void;
}

export function PairDialog({ opened, onClose }: Props) {
  return (
    <Dialog opened={opened} onClose={onClose} title="Pair with another site" careful size="lg">
      <PairForm onClose={onClose} />
    </Dialog>
  );
}

type Way = "choose" | "give" | "enter";

function PairForm({ onClose }: { onClose: () => void }) {
  const [way, setWay] = useState<Way>("choose");
  return (
    <>
      <p className="dim">
        One site gives a code, the other enters it. A code can be used once, for 15 minutes.
      </p>
      <SegmentedControl
        fullWidth
        mt="sm"
        aria-label="Way to pair"
        value={way}
        onChange={(value) => setWay(value as Way)}
        data={[
          { value: "give", label: "Give a code" },
          { value: "enter", label: "Enter a code" },
        ]}
      />
      {way === "give" && <GiveCode onClose={onClose} />}
      {way === "enter" && <EnterCode onClose={onClose} />}
    </>
  );
}
