// Queues: list, make, look into, purge, delete.

import { get, path, post, put, remove } from "./api.js";
import { Series, chart } from "./chart.js";
import { bytes, card, choice, count, danger, facts, field, figures, form, h, input, json, parseObject, rate, state } from "./dom.js";
import { bindingTable, features, publisher } from "./exchanges.js";
import { Listing, table } from "./table.js";

export function queues() {
  const listing = new Listing("queues", ["queues"], [
    { title: "Vhost", sort: "vhost", value: (row) => row.vhost },
    { title: "Name", sort: "name", value: (row) => link(row) },
    { title: "Type", sort: "type", value: (row) => row.type },
    { title: "", value: (row) => features(row) },
    { title: "State", sort: "state", value: (row) => state(row.state) },
    { title: "Leader", sort: "node", value: (row) => row.leader || row.node },
    { title: "Members", number: true, value: (row) => (row.members ? `${row.online.length} of ${row.members.length}` : "") },
    { title: "Ready", sort: "messages_ready", number: true, value: (row) => count(row.messages_ready) },
    { title: "Unacked", sort: "messages_unacknowledged", number: true, value: (row) => count(row.messages_unacknowledged) },
    { title: "Total", sort: "messages", number: true, value: (row) => count(row.messages) },
    { title: "Consumers", sort: "consumers", number: true, value: (row) => count(row.consumers) },
    { title: "Bytes", sort: "message_bytes", number: true, value: (row) => bytes(row.message_bytes) },
  ]);
  const element = h("div", {}, h("h1", {}, "Queues"), listing.element, maker(() => listing.refresh()));
  return { title: "Queues", element, everyMs: 5000, refresh: () => listing.refresh() };
}

function link(row) {
  const where = `#/queues/${encodeURIComponent(row.vhost)}/${encodeURIComponent(row.name)}`;
  return h("a", { href: where }, row.name);
}

function maker(done) {
  const fields = [
    field("Vhost", input("vhost", { value: "/", required: true })),
    field("Name", input("name", { required: true })),
    field("Type", choice("type", ["classic", "quorum"], "classic")),
    h("label", {}, h("input", { type: "checkbox", name: "durable", checked: true }), " durable"),
    h("label", {}, h("input", { type: "checkbox", name: "auto_delete" }), " auto-delete"),
    h("label", { class: "all" }, "Arguments (JSON)", h("textarea", { name: "arguments", rows: 2 })),
  ];
  const act = async (values) => {
    await put(path(["queues", values.vhost, values.name]), {
      durable: values.durable === "on",
      auto_delete: values.auto_delete === "on",
      arguments: { ...parseObject(values.arguments), "x-queue-type": values.type },
    });
    await done();
  };
  return h("details", {}, h("summary", {}, "Add a queue"), card("", form(fields, "Add", act)));
}

export function queue(vhost, name) {
  const about = h("div");
  const flow = new Series(["publish", "deliver_get", "ack", "redeliver"]);
  const element = h("div", {}, about, getter(vhost, name), publisher(vhost, "", name), binder(vhost, name));
  return {
    title: name,
    element,
    everyMs: 2000,
    refresh: async () => {
      const row = await get(path(["queues", vhost, name]));
      const bindings = await get(path(["queues", vhost, name, "bindings"])).catch(() => []);
      flow.observe(row.message_stats || {});
      about.replaceChildren(
        h("h1", {}, `Queue ${name}`),
        row.reason ? h("p", { class: "note bad" }, row.reason) : "",
        card("", totals(row)),
        chart("Messages per second", flow, ["published", "delivered", "acknowledged", "delivered again"], rate),
        card("", more(row), h("p", { class: "tools" }, purger(vhost, name), deleter(vhost, name))),
        consumers(row),
        bindingTable(bindings),
      );
    },
  };
}

function totals(row) {
  return figures([
    ["Ready", count(row.messages_ready)],
    ["Unacknowledged", count(row.messages_unacknowledged)],
    ["Total", count(row.messages)],
    ["In memory", count(row.messages_ram)],
    ["Bytes", bytes(row.message_bytes)],
    ["Consumers", count(row.consumers)],
    ["Consumer capacity", row.consumer_capacity === undefined ? "" : `${Math.round(100 * row.consumer_capacity)} %`],
  ]);
}

function more(row) {
  return facts([
    ["State", state(row.state)],
    ["Vhost", row.vhost],
    ["Type", row.type],
    ["Node", row.node],
    ["Leader", row.leader],
    ["Members", row.members ? row.members.join(", ") : ""],
    ["Online", row.online ? row.online.join(", ") : ""],
    ["Features", features(row)],
    ["Arguments", json(row.arguments || {})],
    ["Policy", row.policy],
  ]);
}

function consumers(row) {
  const details = row.consumer_details;
  if (!details || !details.length) return "";
  return table(
    "consumers",
    [
      { title: "Tag", value: (consumer) => consumer.consumer_tag },
      { title: "Channel", value: (consumer) => (consumer.channel_details || {}).name },
      { title: "Acks", value: (consumer) => (consumer.ack_required ? "yes" : "automatic") },
      { title: "Prefetch", number: true, value: (consumer) => count(consumer.prefetch_count) },
      { title: "Active", value: (consumer) => (consumer.active === false ? "no" : "yes") },
    ],
    details,
  );
}

function getter(vhost, name) {
  const fields = [
    field("Messages", input("count", { type: "number", value: "1", min: "1", max: "1000" })),
    field("What becomes of them", choice("ackmode", [
      "ack_requeue_true", "reject_requeue_true", "ack_requeue_false", "reject_requeue_false",
    ], "ack_requeue_true")),
    field("Bytes shown of each", input("truncate", { type: "number", value: "50000", min: "1" })),
  ];
  const act = async (values) => {
    const found = await post(path(["queues", vhost, name, "get"]), {
      count: Number(values.count),
      ackmode: values.ackmode,
      encoding: "auto",
      truncate: Number(values.truncate),
    });
    return found.length ? h("div", {}, found.map(message)) : "the queue is empty";
  };
  return h("details", {}, h("summary", {}, "Get messages"), card("", form(fields, "Get", act)));
}

function message(found) {
  return card(
    `${found.exchange || "(default)"} / ${found.routing_key}`,
    facts([
      ["Redelivered", found.redelivered ? "yes" : "no"],
      ["Left in the queue", count(found.message_count)],
      ["Encoding", found.payload_encoding],
      ["Bytes", count(found.payload_bytes)],
    ]),
    json(found.properties),
    h("pre", {}, found.payload),
  );
}

function binder(vhost, name) {
  const fields = [
    field("From exchange", input("source", { required: true })),
    field("Key", input("routing_key")),
    h("label", { class: "all" }, "Arguments (JSON)", h("textarea", { name: "arguments", rows: 1 })),
  ];
  const act = async (values) => {
    await post(path(["bindings", vhost, "e", values.source, "q", name]), {
      routing_key: values.routing_key,
      arguments: parseObject(values.arguments),
    });
  };
  return h("details", {}, h("summary", {}, "Bind to an exchange"), card("", form(fields, "Bind", act)));
}

function purger(vhost, name) {
  return danger("Purge", `Remove all ready messages of ${name}?`, () => remove(path(["queues", vhost, name, "contents"])));
}

function deleter(vhost, name) {
  return danger("Delete this queue", `Delete queue ${name} with all its messages?`, async () => {
    await remove(path(["queues", vhost, name]));
    location.hash = "#/queues";
  });
}
