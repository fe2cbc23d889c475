// Channels of AMQP 0-9-1 and sessions of AMQP 1.0, with what they have in flight.

import { Series, chart, rangeChoice } from "./chart.js";
import { ofVhost } from "./choices.js";
import { card, facts, h, link, note, state, tag } from "./dom.js";
import { Listing, counted, speed, table } from "./table.js";
import { address, count, rate, told } from "./text.js";
import { watched } from "./watched.js";

const LINES = [
  ["publish", "Publish"],
  ["confirm", "Publisher confirm"],
  ["deliver_get", "Deliver / get"],
  ["ack", "Consumer ack"],
];

export function channels() {
  const columns = [
    ...channelColumns(true),
    { title: "User name", sort: "user", value: (row) => row.user },
    { title: "Vhost", sort: "vhost", value: (row) => row.vhost },
    { title: "Node", sort: "node", value: (row) => row.node },
  ];
  const where = ofVhost(["channels"], (vhost) => ["vhosts", vhost, "channels"]);
  const options = { keyOf: (row) => row.name, main: true };
  const listing = new Listing("channels", where, columns, options);
  const missing = h("div");
  const element = h("div", {}, h("h1", {}, "Channels"), missing, listing.element);
  return { title: "Channels", element, everyMs: 5000, refresh: () => quietly(listing, missing) };
}

/** A node that has no such listing says so, and nothing is wrong with that. */
async function quietly(listing, missing) {
  try {
    await listing.refresh();
    missing.replaceChildren();
  } catch (error) {
    if (error.status !== 404) throw error;
    missing.replaceChildren(note("This node does not list channels.", "warn"));
  }
}

export function channelColumns(isListed = false) {
  const sort = isListed ? "name" : "number";
  const named = (row) => channelLink(row.name);
  return [
    { title: "Channel", sort, named: isListed, value: named },
    { title: "State", sort: "state", value: (row) => state(row.idle_since ? "idle" : row.state) },
    { title: "Mode", value: modes },
    counted("Prefetch", "prefetch_count"),
    counted("Unacked", "messages_unacknowledged"),
    counted("Unconfirmed", "messages_unconfirmed"),
    counted("Consumers", "consumer_count"),
    speed("publish", "publish"),
    speed("deliver / get", "deliver_get"),
    speed("ack", "ack"),
  ];
}

const FLOWS = [["publish", "publish"], ["deliver_get", "deliver / get"], ["ack", "ack"]];

function modes(row) {
  return [
    row.confirm ? tag("confirms") : null,
    row.transactional ? tag("transactions") : null,
    row.global_prefetch_count ? tag(`${row.global_prefetch_count} together`) : null,
  ];
}

export function channel(name) {
  const flow = new Series();
  return watched(name, ["channels", name], 3000, (row, isFirst) => {
    if (isFirst) flow.begin(row.message_stats, LINES.map(([key]) => key));
    flow.observe(row.message_stats || {});
    return [
      h("h1", {}, `Channel ${name}`),
      card("", about(row)),
      rangeChoice(),
      chart("Message rates", flow, LINES, rate),
      consumerTable(row.consumer_details || []),
      flowTable("Publishes to", row.publishes, (each) => each.exchange, "exchanges"),
      flowTable("Takes from", row.deliveries, (each) => each.queue, "queues"),
    ];
  });
}

function about(row) {
  const connection = (row.connection_details || {}).name;
  return facts([
    ["Connection", connection ? link(connection, address("connections", connection)) : ""],
    ["State", state(row.state)],
    ["Modes", modes(row)],
    ["User", row.user],
    ["Vhost", row.vhost],
    ["Node", row.node],
    ["Prefetch for each consumer", count(row.prefetch_count)],
    ["Prefetch of all together", count(row.global_prefetch_count)],
    ["Unacknowledged", count(row.messages_unacknowledged)],
    ["Unconfirmed", count(row.messages_unconfirmed)],
    ["Not committed: messages", count(row.messages_uncommitted)],
    ["Not committed: acknowledgements", count(row.acks_uncommitted)],
  ]);
}

/** Consumers as the API tells them, of a queue or a channel. `leader`: of the queue, if known. */
export function consumerTable(rows, leader = "") {
  if (!rows.length) return null;
  const channelOf = (row) => (row.channel_details || {}).name;
  const columns = [
    { title: "Consumer", wide: true, value: (row) => row.consumer_tag },
    { title: "Queue", value: (row) => queueLink(row.queue) },
    { title: "Channel", wide: true, value: (row) => channelLink(channelOf(row)) },
    { title: "Node", value: (row) => placed((row.channel_details || {}).node, leader) },
    { title: "Acks", value: (row) => (row.ack_required === false ? "automatic" : "by the client") },
    { title: "Prefetch", number: true, value: (row) => count(row.prefetch_count) },
    { title: "Active", value: (row) => activity(row) },
    { title: "", value: (row) => (row.exclusive ? tag("exclusive") : null) },
  ];
  return table("consumers", columns, rows, (row) => `${channelOf(row)} ${row.consumer_tag}`);
}

function activity(row) {
  const text = (row.activity_status || "").replaceAll("_", " ");
  if (row.active === false) return tag(text || "no", "warn");
  return text && text !== "up" && text !== "single active" ? tag(text, "warn") : text || "yes";
}

function placed(node, leader) {
  if (!node) return "";
  if (!leader) return node;
  return [node, " ", node === leader ? tag("at the leader", "good") : tag("remote", "warn")];
}

function channelLink(name) {
  return name ? link(name, address("channels", name)) : "";
}

export function queueLink(queue) {
  return queue && queue.name ? link(queue.name, address("queues", queue.vhost, queue.name)) : "";
}

/** What goes between two objects, by the other one: counts and rates that the rows have. */
export function flowTable(what, rows, whereOf, folder) {
  if (!rows || !rows.length) return null;
  const named = (row) => {
    const where = whereOf(row) || {};
    const place = where.vhost === undefined ? [where.name] : [where.vhost, where.name];
    return where.name ? link(where.name, address(folder, ...place)) : "(default)";
  };
  const columns = [{ title: what, wide: true, value: named }];
  for (const [key, title] of FLOWS) {
    if (rows.some((row) => (row.stats || {})[key] !== undefined)) {
      columns.push({ title, number: true, value: (row) => told(row.stats, key) });
    }
  }
  return table(what.toLowerCase(), columns, rows);
}
