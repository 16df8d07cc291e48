import { expect, test } from "vitest";
import { readPairingToken } from "./pairing-token";

const CODE =
  "pst1:DzEyNy4wLjAuMTozNjY3NQ2BC0clzV42Zvz2np3QfT36nmYZAVuyUPdY50q2Ca5aVg452CrydpKV3nC_Xd1R79gQTgk";

test("Promise: a code shows the address and the fingerprint of the site that gave it", () => {
  expect(readPairingToken(`  ${CODE.slice(0, 30)}\n${CODE.slice(30)} `)).toEqual({
    address: "127.0.0.1:36675",
    fingerprint: "0d810b47-25cd5e36-66fcf69e-9dd07d3d-fa9e6619-015bb250-f758e74a-b609ae5a",
  });
});

test("Promise: what is no code, or a part of one, is none", () => {
  for (const text of ["", "pst1:", "pst1:***", CODE.slice(0, -4), CODE.slice(5)]) {
    expect(readPairingToken(text)).toBeNull();
  }
});
