/** A question before what cannot be undone: it says the effect, and its button repeats the verb. */

import { Button } from "@mantine/core";
import {
  createContext,
  type ReactNode,
  useCallback,
  useContext,
  useMemo,
  useRef,
  useState,
} from "react";
import { ActionButton } from "./ActionButton";
import { Dialog } from "./Dialog";
import { ProblemBox } from "./ProblemBox";

interface Question {
  /** As `Cancel this transfer?` */
  title: string;
  /** What happens then, in numbers where there are some. */
  effect: ReactNode;
  /** The word on the button, as in the title: `Cancel transfer`. Never `OK`. */
  verb: string;
  /** The word on the other button. */
  keep?: string;
  danger?: boolean;
  /** The deed. The dialog stays open while it is done, and shows its problem. */
  run: () => Promise<unknown>;
}

const Confirm = createContext<(question: Question) => void>(() => {});

/** Returns a function that asks a question. */
export function useConfirm(): (question: Question) => void {
  return useContext(Confirm);
}

export function ConfirmProvider({ children }: { children: ReactNode }) {
  const [question, setQuestion] = useState<Question | null>(null);
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const asked = useRef(0);
  const ask = useCallback((next: Question) => {
    asked.current += 1;
    setQuestion(next);
    setError(null);
    setOpen(true);
  }, []);
  const close = () => {
    asked.current += 1;
    setOpen(false);
    setBusy(false);
  };
  const run = async () => {
    const turn = asked.current;
    setBusy(true);
    setError(null);
    try {
      await question?.run();
      if (turn === asked.current) {
        close();
      }
    } catch (why) {
      if (turn === asked.current) {
        setError(why);
        setBusy(false);
      }
    }
  };
  const context = useMemo(() => ask, [ask]);
  return (
    <Confirm.Provider value={context}>
      {children}
      <Dialog opened={open} onClose={close} title={question?.title}>
        <div>{question?.effect}</div>
        {error !== null && (
          <div style={{ marginTop: 12 }}>
            <ProblemBox error={error} onRetry={() => void run()} />
          </div>
        )}
        <div className="dialog-actions">
          <Button variant="default" onClick={close} data-autofocus>
            {question?.keep ?? "Keep it"}
          </Button>
          <ActionButton
            color={question?.danger === false ? undefined : "red"}
            loading={busy}
            onClick={() => void run()}
          >
            {question?.verb}
          </ActionButton>
        </div>
      </Dialog>
    </Confirm.Provider>
  );
}
