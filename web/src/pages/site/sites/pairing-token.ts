/** What a pairing code says of the site that gave it, before it is used. */

/** The place and the authority in a code. The rest is a secret, and is not read here. */
export interface PairingToken {
  address: string;
  /** As `SiteView::fingerprint` has it. */
  fingerprint: string;
}

const PREFIX = "pst1:";
const HASH_BYTES = 32;
const SECRET_BYTES = 16;
const CHECKSUM_BYTES = 4;

/** Returns what is in a code; null if it is none, or not complete. White space is ignored. */
export function readPairingToken(text: string): PairingToken | null {
  const bytes = decode(text.replaceAll(/\s/g, ""));
  const length = bytes?.[0];
  if (bytes === null || length === undefined) {
    return null;
  }
  if (bytes.length !== 1 + length + HASH_BYTES + SECRET_BYTES + CHECKSUM_BYTES) {
    return null;
  }
  const hex = [...bytes.slice(1 + length, 1 + length + HASH_BYTES)]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
  return {
    address: new TextDecoder().decode(bytes.slice(1, 1 + length)),
    fingerprint: hex.replaceAll(/(.{8})(?=.)/g, "$1-"),
  };
}

/** Returns the bytes of base64url behind the prefix. */
function decode(text: string): Uint8Array | null {
  if (!text.startsWith(PREFIX)) {
    return null;
  }
  const base64 = text.slice(PREFIX.length).replaceAll("-", "+").replaceAll("_", "/");
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}
