/** Settings as they are written in `penstock.toml`. */

/** Returns a value as TOML; null for one that a table has no form for. */
export function tomlValue(value: unknown): string | null {
  if (typeof value === "boolean" || typeof value === "number") {
    return String(value);
  }
  if (typeof value === "string") {
    // JSON's escapes of a string are a part of those of TOML.
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) {
    const parts = value.map(tomlValue);
    return parts.includes(null) ? null : `[${parts.join(", ")}]`;
  }
  return null;
}

/** Returns whether a value only says what happens without one: `auto: …`, `none`. */
export function isAutomatic(value: unknown): boolean {
  return typeof value === "string" && (value === "none" || /^auto(:|$)/.test(value));
}

/** Returns the lines that set a key; null where its value has no form in a file. */
export function tomlOf(key: string, value: unknown): string | null {
  const text = isAutomatic(value) ? null : tomlValue(value);
  if (text === null) {
    return null;
  }
  const item = /^(\w+)\[(.+)\]\.(.+)$/.exec(key);
  if (item !== null) {
    const [, table, name, field] = item;
    const named = field === "name" ? "" : `name = ${JSON.stringify(name)}\n`;
    return `[[${table}]]\n${named}${field} = ${text}`;
  }
  const cut = key.lastIndexOf(".");
  const line = `${key.slice(cut + 1)} = ${text}`;
  return cut < 0 ? line : `[${key.slice(0, cut)}]\n${line}`;
}

/** Returns a value as the page shows it. */
export function shownValue(value: unknown): string {
  if (value === null || value === undefined) {
    return "none";
  }
  if (Array.isArray(value)) {
    return value.length === 0 ? "none" : value.map(shownValue).join(", ");
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
