// The dead letters in a queue: why each died and where, and sending them back.
//
// The API gives messages from the head of a queue alone. A letter is sent first and taken out then,
// so that it may come twice if something breaks, but is never lost.

import { get, path } from "./api.js";
import { card, facts, h, link, note } from "./dom.js";
import { button, choice, field, form, input } from "./forms.js";
import { LOOK, TAKE, message, propertiesOf, take } from "./messages.js";
import { publish } from "./publish.js";
import { table } from "./table.js";
import { address, count, when } from "./text.js";

const SHOWN = 20;
const SHOWN_BYTES = 2000;
const DEATH_HEADERS = /^x-(death|first-death-.*|last-death-.*|delivery-count|acquired-count)$/;
const COUNT_HEADERS = ["x-delivery-count", "x-acquired-count"];
const TARGETS = [
  ["queue", "the queue in which it died"],
  ["exchange", "the exchange it was published to"],
  ["named", "the queue named here"],
];

export function letters(vhost, name) {
  const list = h("div");
  const figure = h("p", { role: "status" });
  const look = async () => {
    const found = await take(vhost, name, SHOWN, LOOK, SHOWN_BYTES);
    list.replaceChildren(...(found.length ? found.map(letter) : ["The queue is empty."]));
  };
  const told = async () => {
    const row = await get(path(["queues", vhost, name]));
    const ready = count(row.messages_ready);
    figure.textContent = `${ready} messages are ready; the first ${SHOWN} are shown.`;
  };
  const back = link("Back to the queue", address("queues", vhost, name));
  const element = h(
    "div",
    {},
    h("h1", {}, `Dead letters in ${name}`),
    card("", h("p", {}, back), figure, looker(look)),
    sender(vhost, name, look),
    list,
  );
  let isLooked = false;
  const refresh = async () => {
    await told();
    if (!isLooked) await look();
    isLooked = true;
  };
  return { title: `Dead letters in ${name}`, element, everyMs: 5000, refresh };
}

/** Messages are looked at when asked for: a look marks them as delivered before. */
function looker(look) {
  return button("Look again", look);
}

function letter(found) {
  const deaths = deathsOf(found);
  if (!deaths.length) return message(found, note("It has not died: no header x-death.", "warn"));
  const columns = [
    { title: "Died in queue", wide: true, value: (death) => death.queue },
    { title: "Because", value: (death) => reason(death.reason) },
    { title: "Times", number: true, value: (death) => count(death.count) },
    { title: "Last", value: (death) => at(death.time) },
    { title: "Was published to", wide: true, value: (death) => death.exchange || "(default)" },
    { title: "With", wide: true, value: (death) => (death["routing-keys"] || []).join(", ") },
  ];
  const first = (propertiesOf(found).headers || {})["x-first-death-queue"];
  return message(found, facts([["Died first in", first]]), table("deaths", columns, deaths));
}

export function deathsOf(found) {
  const deaths = (propertiesOf(found).headers || {})["x-death"];
  return Array.isArray(deaths) ? deaths : [];
}

function reason(text) {
  const words = {
    expired: "its time was over",
    rejected: "a consumer rejected it",
    maxlen: "the queue was full",
    delivery_limit: "it was delivered too often",
  };
  return words[text] || text;
}

/** Timestamps of AMQP are seconds. */
function at(time) {
  return typeof time === "number" ? when(time * 1000) : String(time ?? "");
}

function sender(vhost, name, look) {
  const fields = [
    field("How many, from the oldest on", input("count", { type: "number", value: "1", min: "1" })),
    field("Where to", choice("target", TARGETS, "queue")),
    field("Queue", input("named", { placeholder: "for the last choice" })),
  ];
  const act = async (values, element) => {
    const many = Number(values.count);
    if (!confirm(`Send ${many} of the messages in ${name} back?`)) return null;
    const told = progress(element);
    let sent = 0;
    try {
      while (sent < many && (await sendOne(vhost, name, values))) {
        sent += 1;
        told.textContent = `${count(sent)} sent`;
      }
    } catch (error) {
      throw new Error(`${error.message} (${count(sent)} were sent before)`);
    } finally {
      told.remove();
    }
    await look();
    return `${count(sent)} sent back`;
  };
  const text = "A letter goes without its death headers, its user-id and its lifetime.";
  return card("Send back", h("p", { class: "empty" }, text), form(fields, "Send back", act));
}

function progress(element) {
  const told = h("span", { role: "status" });
  element.append(told);
  return told;
}

/** The oldest message, published anew and then taken out; false: there is none. */
async function sendOne(vhost, name, values) {
  const [found] = await take(vhost, name, 1, LOOK);
  if (!found) return false;
  const { exchange, key } = targetOf(found, values);
  if (!exchange && key === name) throw new Error(`it would come back to ${name}`);
  if (!(await publish(vhost, exchange, again(found, key)))) {
    throw new Error(`there is no queue for it at ${exchange || "the default exchange"}, ${key}`);
  }
  const [taken] = await take(vhost, name, 1, TAKE);
  if (taken && !isSame(taken, found)) {
    await publish(vhost, "", again(taken, name, false)); // a consumer was quicker: this one stays
    throw new Error("somebody else takes from this queue meanwhile");
  }
  return true;
}

/** Where a letter goes: the exchange and the key. */
export function targetOf(found, values) {
  if (values.target === "named") {
    if (!values.named) throw new Error("name the queue");
    return { exchange: "", key: values.named };
  }
  const [death] = deathsOf(found);
  if (!death) throw new Error("the oldest message has not died: there is no way back");
  if (values.target === "queue") return { exchange: "", key: death.queue };
  return { exchange: death.exchange, key: (death["routing-keys"] || [found.routing_key])[0] };
}

/** As it is published again; `isNew`: as if it had never died. */
function again(found, key, isNew = true) {
  const properties = { ...propertiesOf(found) };
  delete properties.user_id; // that of another user is refused
  if (isNew) delete properties.expiration;
  if (isNew && properties.headers) {
    const headers = Object.entries(properties.headers);
    const kept = headers.filter(([header]) => !DEATH_HEADERS.test(header));
    properties.headers = Object.fromEntries(kept);
  }
  const { payload, payload_encoding } = found;
  return { routing_key: key, properties, payload, payload_encoding };
}

/** Counts of deliveries grow by looking at a message. */
function isSame(one, other) {
  const kept = (each) => {
    const { headers = {}, ...others } = propertiesOf(each);
    const own = Object.entries(headers).filter(([name]) => !COUNT_HEADERS.includes(name));
    return JSON.stringify([each.exchange, each.routing_key, each.payload, others, own]);
  };
  return kept(one) === kept(other);
}
