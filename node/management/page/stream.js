// Server-Sent Events read by fetch, for EventSource sends no login.

import { open } from "./api.js";

/** Text in pieces, cut anywhere, as events {id, name, text}. Lines that begin with : are none. */
export class EventParser {
  constructor() {
    this.rest = "";
    this.clear();
  }

  clear() {
    this.name = "message";
    this.lines = [];
  }

  take(piece) {
    const lines = (this.rest + piece).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    return lines.map((line) => this.line(line)).filter((found) => found !== null);
  }

  line(line) {
    if (line === "") return this.end();
    if (line.startsWith(":")) return null;
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (field === "event") this.name = value;
    if (field === "data") this.lines.push(value);
    if (field === "id") this.id = value;
    return null;
  }

  end() {
    const found = { id: this.id, name: this.name, text: this.lines.join("\n") };
    const isEmpty = this.lines.length === 0;
    this.clear();
    return isEmpty ? null : found;
  }
}

/** Calls `opened` once, `tell` with each event until the signal; returns when the node ends it. */
export async function follow(where, lastId, { opened, tell }, signal) {
  const headers = { Accept: "text/event-stream" };
  if (lastId) headers["Last-Event-ID"] = lastId;
  const body = await open(where, headers, signal);
  opened();
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    for (const found of parser.take(value)) tell(found);
  }
}
