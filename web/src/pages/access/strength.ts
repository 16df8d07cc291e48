/** Characters of a password that the daemon takes (docs/users.md). */
export const PASSWORD_MIN = 12;

export type Strength = 0 | 1 | 2 | 3;

/** Judges a password roughly: by its length and how much it repeats itself, as a hint to people. */
export function strengthOf(password: string): Strength {
  const length = [...password].length;
  if (length < PASSWORD_MIN) {
    return length === 0 ? 0 : 1;
  }
  const distinct = new Set(password.toLowerCase()).size;
  const words = password.split(/[\s\-_.,]+/).filter((word) => word.length > 2).length;
  if (distinct < 6) {
    return 1;
  }
  return length >= 18 || words >= 3 || (length >= 14 && distinct >= 10) ? 3 : 2;
}

export const STRENGTH_WORDS: Record<Strength, string> = {
  0: `At least ${PASSWORD_MIN} characters. Four words that nobody would guess are good.`,
  1: `Too short, or too much alike: at least ${PASSWORD_MIN} characters.`,
  2: "Fair. One more word makes it strong.",
  3: "Strong.",
};
