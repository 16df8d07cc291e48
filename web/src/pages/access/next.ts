/** Returns where a log-in leads: a path of this page, whatever the address says. */
export function nextOf(text: string | null): string {
  if (text === null || !/^\/[^/\\]/.test(text)) {
    return "/";
  }
  const base = "https://page.invalid";
  const url = new URL(text, base);
  const isOwn = url.origin === base && !url.pathname.startsWith("/login");
  return isOwn ? url.pathname + url.search + url.hash : "/";
}
