// The dead letters in a queue: why each died and where, and sending them back.

import { get, path, post } from "./api.js";
import { card, facts, h, link, note, tag } from "./dom.js";
import { button, check, choice, field, form, input } from "./forms.js";
import { message, peek, propertiesOf } from "./messages.js";
import { table } from "./table.js";
import { address, count, when } from "./text.js";

const SHOWN = 20;
const SHOWN_BYTES = 2000;
const REASONS = {
  expired: "its time was over",
  rejected: "a consumer rejected it",
  maxlen: "the queue was full",
  delivery_limit: "it was delivered too often",
};
const WHY = [["", "anything"], ...Object.keys(REASONS)];
const TARGETS = [
  ["origin", "the queue in which it first died"],
  ["exchange", "an exchange, with the key it had"],
  ["queue", "another queue"],
];

export function letters(vhost, name) {
  const list = h("div");
  const figure = h("p", { role: "status" });
  const look = async () => {
    const found = await peek(vhost, name, SHOWN, SHOWN_BYTES);
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

/** Messages are looked at when asked for: reading one does not remove it. */
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

function deathsOf(found) {
  const deaths = (propertiesOf(found).headers || {})["x-death"];
  return Array.isArray(deaths) ? deaths : [];
}

function reason(text) {
  return REASONS[text] || text;
}

/** Timestamps of AMQP are seconds. */
function at(time) {
  return typeof time === "number" ? when(time * 1000) : String(time ?? "");
}

function sender(vhost, name, look) {
  const pace = { type: "number", min: "1", placeholder: "all at once" };
  const fields = [
    field("How many, from the oldest on", input("count", { type: "number", value: "1", min: "1" })),
    field("Where to", choice("target", TARGETS, "origin")),
    field("Its name", input("named", { placeholder: "unless it is where it died" })),
    field("Why they died", choice("why", WHY, "")),
    field("In which queue", input("diedIn", { placeholder: "any" })),
    field("Messages a second", input("rate", pace)),
    check("dry", "only say what would become of them"),
  ];
  const act = async (values) => {
    const order = orderOf(values);
    const question = `Send ${order.count} of the messages in ${name} back?`;
    if (!order.dry_run && !confirm(question)) return null;
    const done = await post(path(["queues", vhost, name, "redrive"]), order);
    await look();
    return outcome(done, order.dry_run ? "would go" : "sent back");
  };
  const text = "A letter leaves when its new queue has it, and goes without its death headers.";
  return card("Send back", h("p", { class: "empty" }, text), form(fields, "Send back", act));
}

function orderOf({ count: many, target, named, why, diedIn, rate, dry }) {
  const filter = {};
  if (why) filter.death_reason = why;
  if (diedIn) filter.death_queue = diedIn;
  const order = { count: Number(many), dry_run: Boolean(dry), rate: Number(rate) || 0, filter };
  if (target === "origin") return order;
  if (!named) throw new Error(`name the ${target}`);
  if (target === "exchange") return { ...order, exchange: named };
  return { ...order, exchange: "amq.default", routing_key: named };
}

/** What went, or would, and why the others stay. */
function outcome(done, gone) {
  const reasons = Object.entries(done.reasons || {}).map(([why, many]) =>
    note(`${count(many)} stay: ${why}`, "warn"),
  );
  return h("div", {}, tag(`${count(done.moved)} ${gone}`, done.moved ? "good" : "warn"), reasons);
}
