// All queues: who leads them, what waits in them, how fast they are; and how to make one.

import { path, put } from "./api.js";
import { queueLink } from "./channels.js";
import { VHOST, ofVhost } from "./choices.js";
import { fold, h, state, tag } from "./dom.js";
import { features } from "./exchanges.js";
import { area, check, choice, field, form, input, number, parseObject } from "./forms.js";
import { Listing, counted, speed } from "./table.js";
import { bytes, count } from "./text.js";

const OVERFLOWS = [
  ["", "drop-head"],
  "reject-publish",
  "reject-publish-dlx",
];

export function queues() {
  const columns = [
    { title: "Vhost", sort: "vhost", value: (row) => row.vhost },
    { title: "Name", sort: "name", named: true, value: queueLink },
    { title: "Type", sort: "type", value: (row) => row.type },
    { title: "Features", value: features },
    { title: "State", sort: "state", value: stateOf },
    { title: "Leader", sort: "node", value: leaderOf },
    { title: "Members", extra: true, value: members },
    counted("Ready", "messages_ready"),
    counted("Unacked", "messages_unacknowledged"),
    counted("Total", "messages"),
    { ...counted("In memory", "messages_ram"), extra: true },
    { title: "Bytes", sort: "message_bytes", number: true, extra: true, value: sizeOf },
    { ...counted("Consumers", "consumers"), extra: true },
    speed("incoming", "publish"),
    speed("deliver / get", "deliver_get"),
    speed("ack", "ack"),
  ];
  const keyOf = (row) => JSON.stringify([row.vhost, row.name]);
  const where = ofVhost(["queues"], (vhost) => ["queues", vhost]);
  const listing = new Listing("queues", where, columns, { keyOf, main: true });
  const adding = maker(() => listing.refresh());
  const element = h("div", {}, h("h1", {}, "Queues"), listing.element, adding);
  return { title: "Queues", element, everyMs: 5000, refresh: () => listing.refresh() };
}

export const sizeOf = (row) => (row.counts_known === false ? "unknown" : bytes(row.message_bytes));

export function stateOf(row) {
  const isSyncing = row.state === "syncing";
  const element = state(row.state, isSyncing ? `syncing, ${count(row.sync_messages)}` : undefined);
  if (row.reason) element.title = row.reason;
  return element;
}

/** Of a quorum queue without a leader, the node is only where it was last led. */
export function leaderOf(row) {
  if (row.members && !row.leader) return tag("no leader", "bad");
  return row.leader || row.node;
}

/** How many members run, and which do not. */
export function members(row) {
  if (!row.members) return "";
  const away = row.members.filter((name) => !(row.online || []).includes(name));
  const text = `${row.members.length - away.length} of ${row.members.length}`;
  return [text, " ", away.map((name) => tag(`${name} is away`, "bad"))];
}

function maker(done) {
  const whole = (name) => input(name, { type: "number", min: "0", inputmode: "numeric" });
  const fields = [
    field("Vhost", input("vhost", { value: VHOST.value || "/", required: true })),
    field("Name", input("name", { required: true })),
    field("Type", choice("type", ["classic", "quorum", "stream"], "classic")),
    check("durable", "durable", true),
    check("auto_delete", "auto-delete"),
    field("Max length", whole("x-max-length")),
    field("Overflow behaviour", choice("x-overflow", OVERFLOWS, "")),
    field("Message TTL, ms", whole("x-message-ttl")),
    field("Dead letter exchange", input("x-dead-letter-exchange")),
    field("Dead letter routing key", input("x-dead-letter-routing-key")),
    area("arguments", "Arguments (JSON)"),
  ];
  const act = async (values) => {
    const given = { ...typed(values), ...parseObject(values.arguments) };
    await put(path(["queues", values.vhost, values.name]), {
      durable: values.durable === "on",
      auto_delete: values.auto_delete === "on",
      arguments: { ...given, "x-queue-type": values.type },
    });
    await done();
    return "added";
  };
  return fold("Add a new queue", form(fields, "Add queue", act));
}

function typed(values) {
  const given = {};
  for (const name of ["x-max-length", "x-message-ttl"]) {
    const value = number(values[name], name);
    if (value !== undefined) given[name] = value;
  }
  for (const name of ["x-overflow", "x-dead-letter-exchange", "x-dead-letter-routing-key"]) {
    if (values[name]) given[name] = values[name];
  }
  return given;
}
