/** Sizes, rates and times as people type them into fields; the command line reads the same forms. */

const BINARY: Record<string, number> = { "": 0, k: 1, m: 2, g: 3, t: 4, p: 5 };

/** Returns the bytes of `64K`, `1.5GiB` or `2GB`; undefined if the text is no size. */
export function parseSize(text: string): number | undefined {
  const found = /^(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?b)?$/i.exec(text.trim());
  if (found === null) {
    return undefined;
  }
  const [, figure = "", unit = "", suffix = ""] = found;
  const base = suffix.toLowerCase() === "b" && unit !== "" ? 1000 : 1024;
  return whole(Number(figure) * base ** (BINARY[unit.toLowerCase()] ?? 0));
}

/**
 * Returns the bits per second of `500 Mbit/s`, `500 Mbps`, `60MB/s` or `10MiB/s`; undefined if the
 * text is no rate. A number alone is none, nor is `b`, which people write for bits and for bytes.
 */
export function parseRate(text: string): number | undefined {
  const found = /^(\d+(?:\.\d+)?)\s*(?:([kKMGT])|([KMG])i)?(bit|bps|B)(?:\/s)?$/.exec(text.trim());
  if (found === null) {
    return undefined;
  }
  const [, figure = "", decimal = "", binary = "", kind = ""] = found;
  const base = binary === "" ? 1000 : 1024;
  const bits = kind === "B" ? 8 : 1;
  const unit = (decimal || binary).toLowerCase();
  return whole(Number(figure) * bits * base ** (BINARY[unit] ?? 0));
}

/** Returns a rate in a form that `parseRate` takes, without loss. */
export function rateText(bitsPerSecond: number): string {
  for (const [unit, step] of [
    ["Gbit/s", 1e9],
    ["Mbit/s", 1e6],
    ["kbit/s", 1e3],
  ] as const) {
    if (bitsPerSecond >= step && Number.isInteger((bitsPerSecond / step) * 1000)) {
      return `${bitsPerSecond / step} ${unit}`;
    }
  }
  return `${bitsPerSecond} bit/s`;
}

/** Returns a size in a form that `parseSize` takes, without loss. */
export function sizeText(bytes: number): string {
  const units = ["", "K", "M", "G", "T", "P"];
  let rest = bytes;
  let unit = 0;
  while (rest >= 1024 && rest % 1024 === 0 && unit < units.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${rest}${units[unit]}`;
}

function whole(value: number): number | undefined {
  return Number.isSafeInteger(Math.round(value)) ? Math.round(value) : undefined;
}

/** Returns the time of a field for date and time, in the zone of the browser, as the API has it. */
export function timeOf(local: string): string | undefined {
  const at = Date.parse(local);
  return local === "" || Number.isNaN(at) ? undefined : new Date(at).toISOString();
}

/** Returns the value of such a field for a time of the API. */
export function localOf(time: string | number): string {
  const at = typeof time === "number" ? time : Date.parse(time);
  const zone = new Date(at).getTimezoneOffset() * 60_000;
  return new Date(at - zone).toISOString().slice(0, 16);
}
