import { expect, test } from "vitest";
import { shownValue, tomlOf } from "./toml";

test("Promise: each kind of key is written where its file has it", () => {
  expect(tomlOf("running_max", 4)).toBe("running_max = 4");
  expect(tomlOf("web.listen", ["0.0.0.0:7443"])).toBe('[web]\nlisten = ["0.0.0.0:7443"]');
  expect(tomlOf("store[raw].read_only", false)).toBe('[[store]]\nname = "raw"\nread_only = false');
  expect(tomlOf("store[raw].name", "raw")).toBe('[[store]]\nname = "raw"');
  expect(tomlOf("log", 'in"fo')).toBe('log = "in\\"fo"');
});

test("Promise: what only says how the daemon chooses is no line of a file", () => {
  expect(tomlOf("cpus", "auto: all that the cgroup allows")).toBeNull();
  expect(tomlOf("web.key", "none")).toBeNull();
  expect(tomlOf("odd", { a: 1 })).toBeNull();
});

test("Promise: values are shown as words", () => {
  expect(shownValue([])).toBe("none");
  expect(shownValue(["a", "b"])).toBe("a, b");
  expect(shownValue(null)).toBe("none");
});
