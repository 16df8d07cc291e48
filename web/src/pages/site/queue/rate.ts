/** Rates as people type them. */

const FACTORS: Record<string, number> = { k: 1e3, m: 1e6, g: 1e9, t: 1e12 };

/**
 * Returns bits per second of a text such as `2 Gbit/s`, `500M` or `100 MB/s`; null for an empty
 * one, undefined if it is no rate.
 */
export function parseRate(text: string): number | null | undefined {
  const trimmed = text.trim();
  if (trimmed === "") {
    return null;
  }
  const found = /^(\d+(?:\.\d+)?)\s*([kmgt])?\s*(bit\/s|bits?|b\/s|bps|byte\/s|bytes?)?$/i.exec(
    trimmed,
  );
  if (found === null) {
    return undefined;
  }
  const [, number = "", factor = "", unit = ""] = found;
  const isBytes = unit === "B/s" || /^byte/i.test(unit);
  const value = Number(number) * (FACTORS[factor.toLowerCase()] ?? 1) * (isBytes ? 8 : 1);
  return Math.round(value);
}
