import { expect, test } from "vitest";
import { EventParser } from "./event-parser";

test("Promise: an event is whole however the stream is cut", () => {
  const text = ': beat\n\nid: 7-1\ndata: {"a":\ndata: 1}\n\ndata: x\r\n\r\n';
  for (let cut = 0; cut <= text.length; cut += 1) {
    const parser = new EventParser();
    const events = [...parser.feed(text.slice(0, cut)), ...parser.feed(text.slice(cut))];
    expect(events).toEqual([
      { id: "7-1", data: '{"a":\n1}' },
      { id: "7-1", data: "x" },
    ]);
  }
});

test("Promise: an event that is cut off at the end is none", () => {
  const parser = new EventParser("7-9");
  expect(parser.feed("data: half\n")).toEqual([]);
  expect(parser.feed("\n")).toEqual([{ id: "7-9", data: "half" }]);
});
