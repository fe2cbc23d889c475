// The first page: what flows, what is there, how the nodes are.

import { get } from "./api.js";
import { Series, chart } from "./chart.js";
import { bytes, card, count, duration, figures, h, rate, state, tag } from "./dom.js";
import { table } from "./table.js";

const FLOW = new Series(["publish", "confirm", "deliver_get", "ack"]);
const WAITING = new Series(["messages_ready", "messages_unacknowledged"]);

export function overview() {
  const element = h("div");
  return { title: "Overview", element, everyMs: 2000, refresh: () => refresh(element) };
}

async function refresh(element) {
  const [totals, nodes, cluster] = await Promise.all([
    get("overview"),
    get("nodes").catch(() => []),
    get("cluster").catch(() => ({ nodes: [] })),
  ]);
  FLOW.observe(totals.message_stats || {});
  const queues = totals.queue_totals || {};
  WAITING.note([queues.messages_ready || 0, queues.messages_unacknowledged || 0]);
  element.replaceChildren(
    h("h1", {}, totals.cluster_name || totals.node),
    h(
      "div",
      { class: "cards" },
      chart("Messages per second", FLOW, ["published", "confirmed", "delivered", "acknowledged"], rate),
      chart("Messages waiting", WAITING, ["ready", "unacknowledged"], count),
    ),
    card("Totals", objects(totals)),
    nodes.length ? nodeTable(nodes, cluster.nodes) : null,
    cluster.nodes.length > 1 ? clusterMap(cluster) : null,
    card("", h("p", {}, `${totals.product_name} ${totals.product_version}, `, h("a", { href: "metrics" }, "metrics"))),
  );
}

function objects(totals) {
  const there = totals.object_totals || {};
  return figures([
    ["Connections", count(there.connections)],
    ["Channels", count(there.channels)],
    ["Exchanges", count(there.exchanges)],
    ["Queues", count(there.queues)],
    ["Consumers", count(there.consumers)],
    ["Messages", count((totals.queue_totals || {}).messages)],
  ]);
}

function nodeTable(nodes, members) {
  const leads = new Map(members.map((member) => [member.name, member.leads]));
  const columns = [
    { title: "Node", value: (node) => node.name },
    { title: "State", value: nodeState },
    { title: "Leads", number: true, value: (node) => count(leads.get(node.name)) },
    { title: "Uptime", value: (node) => (node.running ? duration(node.uptime) : "") },
    { title: "Memory", value: (node) => (node.running ? used(node.mem_used, node.mem_limit, node.mem_alarm) : "") },
    { title: "Disk free", value: (node) => (node.running ? free(node) : "") },
    { title: "Sockets", number: true, value: (node) => count(node.sockets_used) },
    { title: "Files", number: true, value: (node) => (node.running ? `${count(node.fd_used)} / ${count(node.fd_total)}` : "") },
    { title: "Build", value: (node) => (node.running ? `${node.version} ${node.build || ""}` : "") },
  ];
  return table("nodes", columns, nodes);
}

/** The nodes by zone and machine: who runs, who leads how many queues. */
function clusterMap(cluster) {
  const places = new Map();
  for (const node of cluster.nodes) {
    const place = [node.zone, node.host_id].filter(Boolean).join(" / ") || "no zone told";
    places.set(place, [...(places.get(place) || []), node]);
  }
  const most = Math.max(1, ...cluster.nodes.map((node) => node.leads));
  return card(
    "Cluster map",
    h(
      "div",
      { class: "cards" },
      [...places].map(([place, members]) => h("div", { class: "place" }, h("h3", {}, place), members.map((node) => mapped(node, most)))),
    ),
  );
}

function mapped(node, most) {
  const fill = h("i");
  fill.style.width = `${(100 * node.leads) / most}%`;
  const kind = node.running ? (node.being_drained ? tag("in maintenance", "warn") : tag("running", "good")) : tag("down", "bad");
  const text = `${count(node.leads)} queues led or at home here`;
  return h("div", {}, h("b", {}, node.name), " ", kind, h("div", { class: "empty" }, text), h("div", { class: "bar", role: "img", "aria-label": text }, fill));
}

function nodeState(node) {
  if (!node.running) return tag("down", "bad");
  const alarms = [
    node.mem_alarm && "memory alarm",
    node.disk_free_alarm && "disk alarm",
    node.clock_alarm && "clock alarm",
  ].filter(Boolean);
  for (const name of node.partitions || []) alarms.push(`cannot reach ${name}`);
  if (alarms.length) return alarms.map((text) => tag(text, "bad"));
  return node.being_drained ? tag("in maintenance", "warn") : state("running");
}

function used(value, limit, alarm) {
  const share = limit ? Math.min(100, (100 * value) / limit) : 0;
  const fill = h("i");
  fill.style.width = `${share}%`;
  const bar = h("div", { class: `bar ${alarm ? "high" : ""}`, role: "img", "aria-label": `${Math.round(share)} %` }, fill);
  return [`${bytes(value)} of ${bytes(limit)}`, bar];
}

function free(node) {
  return [bytes(node.disk_free), h("div", { class: "empty" }, `alarm below ${bytes(node.disk_free_limit)}`)];
}
