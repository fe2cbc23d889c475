// Messages of a queue, looked at or taken through the API, and shown in words.

import { path, post } from "./api.js";
import { card, facts, fold, h, json } from "./dom.js";
import { button, choice, field, form, input } from "./forms.js";
import { count } from "./text.js";

const PEEK = "peek"; // nothing of the queue changes
const WAYS = [
  [PEEK, "Peek: nothing changes"],
  ["ack_requeue_true", "Nack message requeue true"],
  ["ack_requeue_false", "Automatic ack"],
  ["reject_requeue_true", "Reject requeue true"],
  ["reject_requeue_false", "Reject requeue false"],
];

/** Up to so many from the head of the queue, which stay there; `truncate`: bytes of each. */
export function peek(vhost, name, many, truncate) {
  return post(path(["queues", vhost, name, "peek"]), { count: many, truncate });
}

function take(vhost, name, many, ackmode, truncate) {
  if (ackmode === PEEK) return peek(vhost, name, many, truncate);
  const where = path(["queues", vhost, name, "get"]);
  return post(where, { count: many, ackmode, encoding: "auto", truncate });
}

/** The properties of a message; the API says [] for none. */
export function propertiesOf(found) {
  return Array.isArray(found.properties) ? {} : found.properties || {};
}

export function getter(vhost, name) {
  const many = { type: "number", value: "1", min: "1", max: "1000" };
  const fields = [
    field("Messages", input("count", many)),
    field("Ack mode", choice("ackmode", WAYS, PEEK)),
    field("Bytes shown of each", input("truncate", { type: "number", value: "50000", min: "1" })),
  ];
  const act = async (values) => {
    const { count: asked, ackmode, truncate } = values;
    const found = await take(vhost, name, Number(asked), ackmode, Number(truncate));
    return found.length ? h("div", {}, found.map((each) => message(each))) : "the queue is empty";
  };
  return fold("Get messages", form(fields, "Get messages", act));
}

/** JSON on lines of its own; numbers stay as they were written. */
export function formatted(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  // Texts as they are, then brackets, commas and colons; white space between them goes.
  return text.replace(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|\s+/g, (part) => {
    if (/^\s/.test(part)) return "";
    if (part === "{" || part === "[") {
      depth += 1;
      return part + line();
    }
    if (part === "}" || part === "]") {
      depth -= 1;
      return line() + part;
    }
    if (part === ",") return part + line();
    if (part === ":") return ": ";
    return part.length > 1 && part[0] !== '"' ? part[0] + part[part.length - 1] : part;
  });
}

/** Into the clipboard, also where the browser gives it to secure pages alone. */
async function copy(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return "copied";
  }
  const area = h("textarea", {}, text);
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  if (!isDone) throw new Error("the browser does not allow it");
  return "copied";
}

/** Where it is, or how many were behind it. */
function place(found) {
  if (found.position === undefined) return ["Left in the queue", count(found.message_count)];
  return ["Place in the queue", count(found.position + 1)];
}

/** One message with all that is known of it; `more` stands before the payload. */
export function message(found, ...more) {
  const properties = propertiesOf(found);
  const isText = found.payload_encoding === "string";
  const cut = found.payload_encoding === "string" ? "" : " (shown as base64)";
  return card(
    `${found.exchange || "(default)"} / ${found.routing_key}`,
    facts([
      ["Redelivered", found.redelivered ? "yes" : "no"],
      place(found),
      ["Payload", `${count(found.payload_bytes)} bytes${cut}`],
    ]),
    more,
    Object.keys(properties).length ? json(properties) : null,
    h("pre", {}, isText ? formatted(found.payload) : found.payload),
    button("Copy payload", () => copy(found.payload)),
  );
}
