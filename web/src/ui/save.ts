/** Files that the page makes itself. */

/** Has the browser save a text as a file. */
export function saveText(name: string, text: string, type = "application/jsonl"): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser has begun by then.
  window.setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
