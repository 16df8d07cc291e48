import { expect, test } from "vitest";
import { clientName } from "./client-name";

test("Promise: browsers are named as people call them, other programs as they call themselves", () => {
  const like = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)";
  expect(clientName(`${like} Chrome/156.0.0.0 Safari/537.36`)).toBe("Chrome 156 on Linux");
  expect(clientName(`${like} Chrome/156.0.0.0 Safari/537.36 Edg/156.0`)).toBe("Edge 156 on Linux");
  expect(clientName("Mozilla/5.0 (Windows NT 10.0; rv:153.0) Gecko/20100101 Firefox/153.0")).toBe(
    "Firefox 153 on Windows",
  );
  expect(clientName("curl/8.5.0")).toBe("curl/8.5.0");
});
