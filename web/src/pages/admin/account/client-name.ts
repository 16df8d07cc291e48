/** The program of a session, as people call it. */

const BROWSERS: [RegExp, string][] = [
  [/\bEdg\/(\d+)/, "Edge"],
  [/\bOPR\/(\d+)/, "Opera"],
  [/\bFirefox\/(\d+)/, "Firefox"],
  [/\b(?:Headless)?Chrome\/(\d+)/, "Chrome"],
  [/\bVersion\/(\d+).*\bSafari\//, "Safari"],
];

const SYSTEMS: [RegExp, string][] = [
  [/Android/, "Android"],
  [/iPhone|iPad/, "iOS"],
  [/Windows/, "Windows"],
  [/Mac OS X/, "macOS"],
  [/Linux/, "Linux"],
];

/** Returns `Firefox 153 on Linux` for what a browser calls itself; another text as it is. */
export function clientName(agent: string): string {
  const system = SYSTEMS.find(([pattern]) => pattern.test(agent))?.[1];
  for (const [pattern, name] of BROWSERS) {
    const version = pattern.exec(agent)?.[1];
    if (version !== undefined) {
      return `${name} ${version}${system === undefined ? "" : ` on ${system}`}`;
    }
  }
  return agent;
}
