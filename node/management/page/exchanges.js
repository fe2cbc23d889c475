// Exchanges: list, make, publish to, delete.

import { get, path, post, put, remove } from "./api.js";
import { card, choice, danger, facts, field, form, h, input, json, parseObject, tag } from "./dom.js";
import { Listing, table } from "./table.js";

const KINDS = ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash", "x-random"];

export function exchanges() {
  const listing = new Listing("exchanges", ["exchanges"], [
    { title: "Vhost", sort: "vhost", value: (row) => row.vhost },
    { title: "Name", sort: "name", value: (row) => link(row) },
    { title: "Type", sort: "type", value: (row) => row.type },
    { title: "", value: (row) => features(row) },
  ]);
  const element = h("div", {}, h("h1", {}, "Exchanges"), listing.element, maker(() => listing.refresh()));
  return { title: "Exchanges", element, everyMs: 5000, refresh: () => listing.refresh() };
}

function link(row) {
  const where = `#/exchanges/${encodeURIComponent(row.vhost)}/${encodeURIComponent(row.name)}`;
  return row.name ? h("a", { href: where }, row.name) : "(default)";
}

export function features(row) {
  return [
    row.durable ? tag("durable") : null,
    row.auto_delete ? tag("auto-delete") : null,
    row.exclusive ? tag("exclusive") : null,
    row.internal ? tag("internal") : null,
    row.policy ? tag(`policy ${row.policy}`) : null,
    ...Object.keys(row.arguments || {}).map((name) => tag(name)),
  ];
}

function maker(done) {
  const fields = [
    field("Vhost", input("vhost", { value: "/", required: true })),
    field("Name", input("name", { required: true })),
    field("Type", choice("type", KINDS, "direct")),
    h("label", {}, h("input", { type: "checkbox", name: "durable", checked: true }), " durable"),
    h("label", {}, h("input", { type: "checkbox", name: "auto_delete" }), " auto-delete"),
    h("label", { class: "all" }, "Arguments (JSON)", h("textarea", { name: "arguments", rows: 2 })),
  ];
  const act = async (values) => {
    await put(path(["exchanges", values.vhost, values.name]), {
      type: values.type,
      durable: values.durable === "on",
      auto_delete: values.auto_delete === "on",
      arguments: parseObject(values.arguments),
    });
    await done();
  };
  return h("details", {}, h("summary", {}, "Add an exchange"), card("", form(fields, "Add", act)));
}

export function exchange(vhost, name) {
  const about = h("div");
  const element = h("div", {}, about, publisher(vhost, name));
  return {
    title: name,
    element,
    everyMs: 5000,
    refresh: async () => {
      const row = await get(path(["exchanges", vhost, name]));
      const bindings = await get(path(["exchanges", vhost, name, "bindings", "source"])).catch(() => []);
      about.replaceChildren(
        h("h1", {}, `Exchange ${name}`),
        card("", facts([["Vhost", vhost], ["Type", row.type], ["", features(row)]]), json(row.arguments), deleter(vhost, name)),
        bindingTable(bindings),
      );
    },
  };
}

export function bindingTable(bindings) {
  return table(
    "bindings",
    [
      { title: "From", value: (row) => row.source || "(default)" },
      { title: "Key", value: (row) => row.routing_key },
      { title: "To", value: (row) => `${row.destination_type} ${row.destination}` },
      { title: "Arguments", wide: true, value: (row) => JSON.stringify(row.arguments || {}) },
    ],
    bindings,
  );
}

function deleter(vhost, name) {
  return danger("Delete this exchange", `Delete exchange ${name} and its bindings?`, async () => {
    await remove(path(["exchanges", vhost, name]));
    location.hash = "#/exchanges";
  });
}

/** Publish one message; says whether it was routed anywhere. */
export function publisher(vhost, exchangeName, routingKey = "") {
  const fields = [
    field("Routing key", input("routing_key", { value: routingKey })),
    field("Delivery mode", choice("delivery_mode", ["2", "1"], "2")),
    h("label", { class: "all" }, "Headers (JSON)", h("textarea", { name: "headers", rows: 1 })),
    h("label", { class: "all" }, "Properties (JSON)", h("textarea", { name: "properties", rows: 1 })),
    h("label", { class: "all" }, "Payload", h("textarea", { name: "payload", rows: 4 })),
  ];
  const act = async (values) => {
    const properties = { ...parseObject(values.properties), delivery_mode: Number(values.delivery_mode) };
    const headers = parseObject(values.headers);
    if (Object.keys(headers).length) properties.headers = headers;
    const answer = await post(path(["exchanges", vhost, exchangeName || "amq.default", "publish"]), {
      routing_key: values.routing_key,
      properties,
      payload: values.payload,
      payload_encoding: "string",
    });
    return answer.routed ? tag("published", "good") : tag("published, and routed nowhere", "warn");
  };
  return h("details", {}, h("summary", {}, "Publish a message"), card("", form(fields, "Publish", act)));
}
