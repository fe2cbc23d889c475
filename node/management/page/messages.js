// Messages of a queue, looked at or taken through the API, and shown in words.

import { path, post } from "./api.js";
import { card, facts, fold, h, json } from "./dom.js";
import { choice, field, form, input } from "./forms.js";
import { count } from "./text.js";

const PEEK = "peek"; // nothing of the queue changes
const WAYS = [
  [PEEK, "they are looked at, and nothing changes"],
  ["ack_requeue_true", "they are put back, as delivered before"],
  ["ack_requeue_false", "they are taken out"],
  ["reject_requeue_true", "they are rejected, and stay"],
  ["reject_requeue_false", "they are rejected: dropped or dead-lettered"],
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
    field("What becomes of them", choice("ackmode", WAYS, PEEK)),
    field("Bytes shown of each", input("truncate", { type: "number", value: "50000", min: "1" })),
  ];
  const act = async (values) => {
    const { count: asked, ackmode, truncate } = values;
    const found = await take(vhost, name, Number(asked), ackmode, Number(truncate));
    return found.length ? h("div", {}, found.map((each) => message(each))) : "the queue is empty";
  };
  return fold("Get messages", form(fields, "Get", act));
}

/** Where it is, or how many were behind it. */
function place(found) {
  if (found.position === undefined) return ["Left in the queue", count(found.message_count)];
  return ["Place in the queue", count(found.position + 1)];
}

/** One message with all that is known of it; `more` stands before the payload. */
export function message(found, ...more) {
  const properties = propertiesOf(found);
  const cut = found.payload_encoding === "string" ? "" : " (shown as base64)";
  return card(
    `${found.exchange || "(default)"} / ${found.routing_key}`,
    facts([
      ["Delivered before", found.redelivered ? "yes" : "no"],
      place(found),
      ["Payload", `${count(found.payload_bytes)} bytes${cut}`],
    ]),
    more,
    Object.keys(properties).length ? json(properties) : null,
    h("pre", {}, found.payload),
  );
}
