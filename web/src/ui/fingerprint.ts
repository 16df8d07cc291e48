/** The fingerprint of a site in words, so that two people can compare it by telephone. */

import { wordlist } from "@scure/bip39/wordlists/english.js";

/** Words of 11 bits each: 132 bits, beyond what anybody can find another key for. */
const WORDS = 12;

/** Returns the words of a fingerprint in hex; none if it is no such text. */
export function fingerprintWords(hex: string): string[] {
  const digits = hex.replaceAll("-", "");
  if (!/^[0-9a-f]{64}$/i.test(digits)) {
    return [];
  }
  const bits = [...digits]
    .map((digit) => Number.parseInt(digit, 16).toString(2).padStart(4, "0"))
    .join("");
  return Array.from({ length: WORDS }, (_, word) => {
    const index = Number.parseInt(bits.slice(word * 11, word * 11 + 11), 2);
    return wordlist[index] ?? "";
  });
}
