/** The fingerprint of a site's authority, in words and in hex. */

import { CopyButton } from "./Copy";
import classes from "./Fingerprint.module.css";
import { fingerprintWords } from "./fingerprint";

export function Fingerprint({ hex, of }: { hex: string; of: string }) {
  const words = fingerprintWords(hex);
  return (
    <div className={classes.box}>
      <ol className={classes.words} aria-label={`Fingerprint of ${of}, in words`}>
        {words.map((word, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a word may come twice
          <li key={index}>{word}</li>
        ))}
      </ol>
      <div className={classes.hex}>
        <code>{hex}</code>
        <CopyButton text={hex} label={`Copy the fingerprint of ${of}`} />
      </div>
    </div>
  );
}
