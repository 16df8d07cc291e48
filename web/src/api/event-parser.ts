/** The format of server-sent events (WHATWG HTML, 9.2.6). */

export interface ServerEvent {
  /** The id of the last event that had one, for `Last-Event-ID`. */
  id: string;
  data: string;
}

/** Cuts a stream of text into events. Comments, such as those that keep it alive, are passed over. */
export class EventParser {
  private rest = "";
  private data: string[] = [];
  private id: string;

  constructor(lastId = "") {
    this.id = lastId;
  }

  /** Takes the next part of the stream; returns the events that are complete by it. */
  feed(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (this.data.length > 0) {
          events.push({ id: this.id, data: this.data.join("\n") });
        }
        this.data = [];
        continue;
      }
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "data") {
        this.data.push(value);
      } else if (field === "id" && !value.includes("\0")) {
        this.id = value;
      }
    }
    return events;
  }
}
