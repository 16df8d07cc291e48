import "./styles/mantine.css";
import "./styles/theme.css";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { PartError } from "./routes";

/** Reports a fault that a page shows; a program that is not there is none, and the page says so. */
function report(error: unknown): void {
  if (!(error instanceof PartError)) {
    console.error(error);
  }
}

// Its name is relative to the first address: after that of another page it would lead elsewhere.
for (const icon of document.querySelectorAll<HTMLLinkElement>("link[rel=icon]")) {
  icon.setAttribute("href", icon.href);
}

const root = document.getElementById("root");
if (root !== null) {
  createRoot(root, { onCaughtError: report }).render(<App />);
}
