// What happens in the cluster, as it happens: a live list by Server-Sent Events.

import { path } from "./api.js";
import { card, h, note, tag } from "./dom.js";
import { button, field, form, input } from "./forms.js";
import { follow } from "./stream.js";

const KEPT = 300; // rows
const AGAIN_MS = 3000;
const BAD = /(failure|alarm\.set|down|crashed|lost)/;

export function events() {
  const feed = new Feed();
  return {
    title: "Events",
    element: feed.element,
    everyMs: AGAIN_MS, // looks whether the stream is still there
    refresh: () => feed.open(),
    leave: () => feed.close(),
  };
}

class Feed {
  constructor() {
    this.names = "";
    this.lastId = "";
    this.stop = null; // of the stream that is open
    this.isPaused = false;
    this.waiting = []; // came while paused
    this.list = h("ol", { class: "events", "aria-label": "events" });
    this.told = h("p", { role: "status" }, "connecting ...");
    const filter = input("names", { type: "search", placeholder: "queue.*, connection.closed" });
    const apply = async (values) => {
      this.names = values.names.replaceAll(" ", "");
      this.list.replaceChildren();
      this.restart();
    };
    const press = () => this.pause(pause);
    const pause = h("button", { type: "button", "aria-pressed": "false", click: press });
    pause.append("Pause");
    const clear = button("Clear", async () => this.list.replaceChildren());
    const tools = h("p", { class: "tools" }, pause, clear);
    this.element = h(
      "div",
      {},
      h("h1", {}, "Events"),
      card("", form([field("Names", filter)], "Filter", apply), tools, this.told),
      this.list,
    );
  }

  /** Opens the stream if there is none; done when the node has begun to tell, or cannot. */
  async open() {
    if (this.stop !== null) return;
    await new Promise((resolve, reject) => {
      this.listen(resolve).then(resolve, reject);
    });
  }

  async listen(opened) {
    const stop = new AbortController();
    this.stop = stop;
    const where = path(["events"], { names: this.names });
    try {
      const told = {
        opened: () => {
          this.say("Listening.");
          opened();
        },
        tell: (found) => this.take(found, stop),
      };
      await follow(where, this.lastId, told, stop.signal);
      if (!stop.signal.aborted) this.say("The node has ended the stream; trying again.", "warn");
    } catch (error) {
      if (stop.signal.aborted) return;
      if (error.status === 404) this.say("This node does not tell events.", "warn");
      else if (error.status) throw error;
      else this.say("The stream is cut off; trying again.", "warn");
    } finally {
      if (this.stop === stop) this.stop = null;
    }
  }

  close() {
    if (this.stop !== null) this.stop.abort();
    this.stop = null;
  }

  restart() {
    this.close();
    this.lastId = "";
    this.open().catch((error) => this.say(error.message, "bad"));
  }

  say(text, kind = "") {
    this.told.replaceChildren(kind ? note(text, kind) : text);
  }

  take(found, stop) {
    if (stop.signal.aborted) return;
    if (found.id) this.lastId = found.id;
    if (this.isPaused) this.waiting.push(found);
    else this.show([found]);
    if (this.waiting.length > KEPT) this.waiting.shift();
  }

  pause(pressed) {
    this.isPaused = !this.isPaused;
    pressed.setAttribute("aria-pressed", String(this.isPaused));
    if (!this.isPaused) this.show(this.waiting.splice(0));
  }

  /** The newest stand first. */
  show(found) {
    this.list.prepend(...found.map(row).reverse());
    while (this.list.children.length > KEPT) this.list.lastChild.remove();
  }
}

function row(found) {
  let told = {};
  try {
    told = JSON.parse(found.text) || {};
  } catch {
    told = { properties: { text: found.text } };
  }
  const name = told.name || found.name;
  const at = told.timestamp ? new Date(told.timestamp) : new Date();
  const properties = Object.entries(told.properties || {});
  const said = properties.filter(([key]) => key !== "timestamp_in_ms").map(pair).join("  ");
  return h(
    "li",
    {},
    h("time", { datetime: at.toISOString() }, at.toLocaleTimeString()),
    tag(name, BAD.test(name) ? "bad" : ""),
    told.node ? h("span", { class: "empty" }, told.node) : null,
    h("span", { class: "said" }, said),
  );
}

function pair([key, value]) {
  return `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`;
}
