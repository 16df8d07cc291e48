/** How much of a transfer is done, by its figures in a list, in an event or in full. */

interface Figures {
  bytes: number;
  bytes_found: number;
  /** In lists only. */
  bytes_settled?: number;
  /** These in events and in full only. */
  bytes_verified?: number;
  bytes_resumed?: number;
  bytes_resent?: number;
  bytes_skipped?: number;
}

/** Returns the bytes that need not be moved any more, as `bytes_settled` of the API. */
export function settledOf(figures: Figures): number {
  const { bytes, bytes_found, bytes_settled, bytes_verified } = figures;
  if (bytes_verified === undefined) {
    return Math.min(bytes_settled ?? bytes, bytes_found);
  }
  const { bytes_resumed = 0, bytes_resent = 0, bytes_skipped = 0 } = figures;
  const come = Math.max(bytes_resumed + bytes_verified - bytes_resent, bytes);
  return Math.min(come + bytes_skipped, bytes_found);
}

/** Returns the part that is done, from 0 to 1; null while nothing is found. */
export function shareOf(figures: Figures, state: string): number | null {
  if (figures.bytes_found === 0) {
    return null;
  }
  return state === "done" ? 1 : settledOf(figures) / figures.bytes_found;
}
