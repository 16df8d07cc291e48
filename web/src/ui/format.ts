/** Figures as people read them: bytes binary, rates decimal, as everywhere in Penstock. */

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const DECIMAL = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** Three significant digits, as `1.23`, `12.3` or `123`. */
function short(value: number): string {
  const digits = value >= 99.95 || Number.isInteger(value) ? 0 : value >= 9.995 ? 1 : 2;
  return value.toFixed(digits);
}

function scaled(value: number, step: number, units: readonly string[]): string {
  let rest = Math.abs(value);
  let unit = 0;
  while (rest >= step * 0.9995 && unit < units.length - 1) {
    rest /= step;
    unit += 1;
  }
  const sign = value < 0 ? "−" : "";
  return `${sign}${short(rest)} ${units[unit]}`;
}

export function formatBytes(bytes: number): string {
  return scaled(Math.round(bytes), 1024, BINARY);
}

export function formatRate(bitsPerSecond: number): string {
  return scaled(Math.round(bitsPerSecond), 1000, DECIMAL);
}

export function formatCount(count: number): string {
  return whole.format(count);
}

export function exactBytes(bytes: number): string {
  return `${whole.format(bytes)} bytes`;
}

export function exactRate(bitsPerSecond: number): string {
  return `${whole.format(bitsPerSecond)} bit/s`;
}

/** A share between 0 and 1 as per cent. 100 % is said of what is complete only. */
export function formatShare(share: number): string {
  const percent = Math.max(0, Math.min(1, share)) * 100;
  if (percent > 99 && percent < 100) {
    return percent < 99.9 ? "99 %" : "99.9 %";
  }
  return `${percent > 0 && percent < 1 ? percent.toFixed(1) : Math.floor(percent)} %`;
}

/** A duration in at most two units: `12 min`, `3 h 20 min`, `4 s`. */
export function formatDuration(seconds: number): string {
  const total = Math.max(0, Math.round(seconds));
  if (total < 60) {
    return `${total} s`;
  }
  const minutes = Math.round(total / 60);
  if (minutes < 60) {
    return total < 600 && total % 60
      ? `${Math.floor(total / 60)} min ${total % 60} s`
      : `${minutes} min`;
  }
  const hours = Math.floor(minutes / 60);
  if (hours < 48) {
    return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  }
  const days = Math.floor(hours / 24);
  return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** A time beside now: `12 min ago`, `in 3 h`, `now`. */
export function formatRelative(at: number, now: number): string {
  const seconds = Math.round((at - now) / 1000);
  if (Math.abs(seconds) < 5) {
    return "now";
  }
  const rough = roughDuration(Math.abs(seconds));
  return seconds < 0 ? `${rough} ago` : `in ${rough}`;
}

function roughDuration(seconds: number): string {
  if (seconds < 90) {
    return `${seconds} s`;
  }
  if (seconds < 90 * 60) {
    return `${Math.round(seconds / 60)} min`;
  }
  if (seconds < 36 * 3600) {
    return `${Math.round(seconds / 3600)} h`;
  }
  return `${Math.round(seconds / 86_400)} d`;
}

const clock = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

export function formatClock(at: number): string {
  return clock.format(at);
}

/** Date and time in the person's zone. */
export function formatMoment(at: number): string {
  return `${day.format(at)}, ${clock.format(at)}`;
}

/** A place as the command line writes it: `lab:raw/run7/`. */
export function formatLocation(place: {
  site: string;
  store: string;
  path: unknown;
  slash?: boolean;
}): string {
  const path = String(place.path ?? "");
  return `${place.site}:${place.store}${path ? `/${path}` : ""}${place.slash ? "/" : ""}`;
}

/** Returns what limits a transfer, after its subject: `limited by reading at the source`. */
export function limitWords(bottleneck: { code: string; text: string }): string {
  return `${bottleneck.code === "limit" ? "at" : "limited by"} ${bottleneck.text}`;
}

/** The first digits of an id, as the command line shows them. */
export function shortId(id: string): string {
  return id.slice(0, 8);
}

/** Returns the first letter as a capital one: the daemon writes errors as parts of a sentence. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
