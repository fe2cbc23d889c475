// Exchanges: list, make, look into, bind, publish to, delete.

import { get, path, put, remove } from "./api.js";
import { bindingListing, exchangeBinder, exchangeLink } from "./bindings.js";
import { flowTable } from "./channels.js";
import { Series, chart, rangeChoice, samples } from "./chart.js";
import { VHOST, ofVhost } from "./choices.js";
import { card, facts, fold, h, json, tag } from "./dom.js";
import { area, check, choice, danger, field, form, input, parseObject } from "./forms.js";
import { patch } from "./patch.js";
import { publisher } from "./publish.js";
import { Listing } from "./table.js";
import { told } from "./text.js";

const KINDS = [
  "direct", "fanout", "topic", "headers",
  "x-consistent-hash", "x-modulus-hash", "x-random", "x-local-random",
];
const SHORT = {
  "x-message-ttl": "TTL",
  "x-expires": "Exp",
  "x-max-length": "Lim",
  "x-max-length-bytes": "Lim B",
  "x-overflow": "Ovfl",
  "x-dead-letter-exchange": "DLX",
  "x-dead-letter-routing-key": "DLK",
  "x-dead-letter-strategy": "DLS",
  "x-max-priority": "Pri",
  "x-single-active-consumer": "SAC",
  "x-queue-mode": "Mode",
  "x-delivery-limit": "DL",
  "alternate-exchange": "AE",
};
const LINES = [["publish_in", "Publish (in)"], ["publish_out", "Publish (out)"]];

export function exchanges() {
  const speed = (key) => (row) => told(row.message_stats, key);
  const columns = [
    { title: "Vhost", sort: "vhost", value: (row) => row.vhost },
    { title: "Name", sort: "name", named: true, value: (row) => exchangeLink(row.vhost, row.name) },
    { title: "Type", sort: "type", value: (row) => row.type },
    { title: "Features", value: features },
    { title: "Message rate in", number: true, value: speed("publish_in") },
    { title: "Message rate out", number: true, value: speed("publish_out") },
  ];
  const keyOf = (row) => JSON.stringify([row.vhost, row.name]);
  const where = ofVhost(["exchanges"], (vhost) => ["exchanges", vhost]);
  const listing = new Listing("exchanges", where, columns, { keyOf, main: true });
  const adding = maker(() => listing.refresh());
  const element = h("div", {}, h("h1", {}, "Exchanges"), listing.element, adding);
  return { title: "Exchanges", element, everyMs: 5000, refresh: () => listing.refresh() };
}

export function features(row) {
  const given = row.arguments || {};
  const names = Object.keys(given).filter((name) => name !== "x-queue-type");
  const said = (name) => `${name}: ${JSON.stringify(given[name])}`;
  return [
    row.durable ? short("D", "durable") : null,
    row.auto_delete ? short("AD", "auto-delete") : null,
    row.exclusive ? short("Excl", "exclusive") : null,
    row.internal ? short("I", "internal") : null,
    ...names.map((name) => (SHORT[name] ? short(SHORT[name], said(name)) : tag(name))),
    row.policy ? tag(`policy ${row.policy}`) : null,
    row.operator_policy ? tag(`operator policy ${row.operator_policy}`) : null,
  ];
}

/** RabbitMQ's short names, with what they stand for. */
function short(text, title) {
  return h("abbr", { class: "tag", title }, text);
}

function maker(done) {
  const fields = [
    field("Vhost", input("vhost", { value: VHOST.value || "/", required: true })),
    field("Name", input("name", { required: true })),
    field("Type", choice("type", KINDS, "direct")),
    check("durable", "durable", true),
    check("auto_delete", "auto-delete"),
    check("internal", "internal"),
    field("Alternate exchange", input("alternate")),
    area("arguments", "Arguments (JSON)"),
  ];
  const act = async (values) => {
    const given = parseObject(values.arguments);
    if (values.alternate) given["alternate-exchange"] = values.alternate;
    await put(path(["exchanges", values.vhost, values.name]), {
      type: values.type,
      durable: values.durable === "on",
      auto_delete: values.auto_delete === "on",
      internal: values.internal === "on",
      arguments: given,
    });
    await done();
    return "added";
  };
  return fold("Add a new exchange", form(fields, "Add exchange", act));
}

export function exchange(vhost, name) {
  const about = h("div");
  const flow = new Series();
  const where = ["exchanges", vhost, name];
  const from = bindingListing([...where, "bindings", "source"], "bindings from here");
  const to = bindingListing([...where, "bindings", "destination"], "bindings to here");
  const element = h(
    "div",
    {},
    about,
    h("h2", {}, "Bindings from here"),
    from.element,
    h("h2", {}, "Bindings to here"),
    to.element,
    exchangeBinder(vhost, name),
    publisher(vhost, name),
  );
  let isFirst = true;
  return {
    title: name,
    element,
    everyMs: 5000,
    refresh: async () => {
      const asked = get(path(where, isFirst ? samples() : {}));
      const [row] = await Promise.all([asked, from.refresh(), to.refresh()]);
      if (isFirst) flow.begin(row.message_stats, LINES.map(([key]) => key));
      isFirst = false;
      flow.observe(row.message_stats || {});
      patch(
        about,
        h("h1", {}, `Exchange ${name}`),
        card("", facts(factsOf(row)), name.startsWith("amq.") ? null : deleter(vhost, name)),
        row.message_stats ? rangeChoice() : null,
        row.message_stats ? chart("Message rates", flow, LINES) : null,
        flowTable("Comes from", row.incoming, (each) => each.channel_details, "channels"),
        flowTable("Goes to", row.outgoing, (each) => each.queue, "queues"),
      );
    },
  };
}

function factsOf(row) {
  const definition = row.effective_policy_definition;
  const isRuled = definition && Object.keys(definition).length > 0;
  const given = row.arguments || {};
  return [
    ["Vhost", row.vhost],
    ["Type", row.type],
    ["Features", features(row)],
    ["Arguments", Object.keys(given).length ? json(given) : ""],
    ["Effective policy definition", isRuled ? json(definition) : ""],
  ];
}

function deleter(vhost, name) {
  return danger("Delete exchange", `Delete exchange ${name} and its bindings?`, async () => {
    await remove(path(["exchanges", vhost, name]));
    location.hash = "#/exchanges";
  });
}
