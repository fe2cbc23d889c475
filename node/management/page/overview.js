// The first page: what flows, what waits, what is wrong, how the nodes are.

import { get, maybe } from "./api.js";
import { Series, chart } from "./chart.js";
import { bar, card, figures, h, link, note, state, tag } from "./dom.js";
import { patch } from "./patch.js";
import { table } from "./table.js";
import { bytes, count, duration, rate } from "./text.js";

// They outlive the view, so that a look at another page leaves no gap but of time.
const FLOW = new Series();
const WAITING = new Series();
const CHURN = new Series();
const PUBLISHED = new Series();
const QUEUED = new Series();

const FLOW_LINES = [
  ["publish", "published"],
  ["confirm", "confirmed"],
  ["deliver_get", "delivered"],
  ["ack", "acknowledged"],
  ["redeliver", "delivered again"],
];
const WAITING_LINES = [["messages_ready", "ready"], ["messages_unacknowledged", "unacknowledged"]];

export function overview() {
  const element = h("div");
  return { title: "Overview", element, everyMs: 2000, refresh: () => refresh(element) };
}

async function refresh(element) {
  const [totals, nodes, map] = await Promise.all([
    get("overview"),
    maybe("nodes", []),
    maybe("cluster", { nodes: [] }),
  ]);
  observe(totals, nodes);
  const running = nodes.filter((node) => node.running);
  const several = nodes.length > 1 && running.some((node) => node.queue_totals);
  patch(
    element,
    h("h1", {}, totals.cluster_name || totals.node),
    ...alarms(nodes),
    h(
      "div",
      { class: "cards charts" },
      chart("Messages per second", FLOW, FLOW_LINES, rate),
      chart("Messages waiting", WAITING, WAITING_LINES, count),
      several ? chart("Published per second, by node", PUBLISHED, linesOf(nodes), rate) : null,
      several ? chart("Messages waiting, by node", QUEUED, linesOf(nodes), count) : null,
    ),
    card("Totals", objects(totals)),
    nodes.length ? nodeTable(nodes, map.nodes) : null,
    churn(totals),
    listeners(totals.listeners),
    product(totals),
  );
}

function observe(totals, nodes) {
  FLOW.observe(totals.message_stats || {});
  CHURN.observe(totals.churn_rates || {});
  WAITING.note(totals.queue_totals || {});
  const published = {};
  const queued = {};
  for (const node of nodes) {
    if (node.message_stats) published[node.name] = node.message_stats.publish || 0;
    if (node.queue_totals) queued[node.name] = node.queue_totals.messages || 0;
  }
  PUBLISHED.observe(published);
  QUEUED.note(queued);
}

const linesOf = (nodes) => nodes.map((node) => [node.name, node.name]);

function alarms(nodes) {
  const found = [];
  for (const node of nodes) {
    const told = [...(node.alarm_details || [])];
    if (!told.length) told.push(...alarmNames(node));
    for (const text of told) found.push(note(`${node.name}: ${text}`));
    for (const name of node.partitions || []) found.push(note(`${node.name} cannot reach ${name}`));
    for (const place of (node.recovery || {}).corrupt || []) {
      const hit = place.queues.map((each) => each.name).join(", ");
      const what = place.reason ? ` ${place.reason}` : "";
      const queues = hit ? `, not served: ${hit}` : "";
      found.push(note(`${node.name}: damaged log ${place.file}${what}${queues}`));
    }
  }
  return found;
}

function alarmNames(node) {
  const raised = [
    [node.mem_alarm, "memory alarm: publishers wait"],
    [node.disk_free_alarm, "disk alarm: publishers wait"],
    [node.clock_alarm, "clock alarm"],
  ];
  return raised.filter(([isOn]) => isOn).map(([, text]) => text);
}

function objects(totals) {
  const there = totals.object_totals || {};
  const place = (label, href) => link(label, href);
  return figures([
    [place("Connections", "#/connections"), count(there.connections)],
    [place("Channels", "#/channels"), count(there.channels)],
    [place("Exchanges", "#/exchanges"), count(there.exchanges)],
    [place("Queues", "#/queues"), count(there.queues)],
    ["Consumers", count(there.consumers)],
    ["Messages", count((totals.queue_totals || {}).messages)],
  ]);
}

function nodeTable(nodes, members) {
  const leads = new Map(members.map((member) => [member.name, member.leads]));
  const live = (value) => (node) => (node.running ? value(node) : "");
  const files = (node) => of(node.fd_used, node.fd_total, count);
  return table(
    "nodes",
    [
      { title: "Node", value: (node) => node.name },
      { title: "State", value: nodeState },
      { title: "Leads", number: true, value: (node) => count(leads.get(node.name)) },
      { title: "Uptime", value: live((node) => duration(node.uptime)) },
      { title: "Memory", value: live(memory) },
      { title: "Disk free", value: live(free) },
      { title: "Files", number: true, value: live(files) },
      { title: "Sockets", number: true, value: live((node) => count(node.sockets_used)) },
      { title: "Build", value: live((node) => `${node.version || ""} ${node.build || ""}`) },
    ],
    nodes,
    (node) => node.name,
  );
}

export function nodeState(node) {
  if (!node.running) return tag("down", "bad");
  const wrong = alarmNames(node).map((text) => text.split(":")[0]);
  for (const name of node.partitions || []) wrong.push(`cannot reach ${name}`);
  if (wrong.length) return wrong.map((text) => tag(text, "bad"));
  return node.being_drained ? tag("in maintenance", "warn") : state("running");
}

function memory(node) {
  const share = node.mem_limit ? node.mem_used / node.mem_limit : 0;
  const said = `${Math.round(100 * share)} % of the memory that is allowed`;
  return [of(node.mem_used, node.mem_limit, bytes), bar(share, said, node.mem_alarm)];
}

function free(node) {
  const limit = h("div", { class: "empty" }, `alarm below ${bytes(node.disk_free_limit)}`);
  return [bytes(node.disk_free), limit];
}

function of(value, limit, format) {
  return limit ? `${format(value)} of ${format(limit)}` : format(value);
}

function churn(totals) {
  if (!totals.churn_rates) return null;
  const row = (what, kinds) => ({ what, kinds });
  const rows = [
    row("Connections", ["connection_created", "connection_closed"]),
    row("Channels", ["channel_created", "channel_closed"]),
    row("Queues", ["queue_created", "queue_deleted"]),
    row("Queues declared", ["queue_declared", null]),
  ];
  const figure = (kind) => {
    if (kind === null) return "";
    return [count(totals.churn_rates[kind]), " ", h("small", {}, rate(CHURN.newest(kind)))];
  };
  const columns = [
    { title: "Come and gone since the start", value: (each) => each.what },
    { title: "Made", number: true, value: (each) => figure(each.kinds[0]) },
    { title: "Ended", number: true, value: (each) => figure(each.kinds[1]) },
  ];
  return table("churn", columns, rows, (each) => each.what);
}

function listeners(rows) {
  if (!rows || !rows.length) return null;
  return table(
    "listeners",
    [
      { title: "Node", value: (each) => each.node },
      { title: "Protocol", value: (each) => each.protocol },
      { title: "Address", value: (each) => each.ip_address },
      { title: "Port", number: true, value: (each) => String(each.port) },
      { title: "TLS", value: (each) => (each.tls || each.ssl ? "yes" : "") },
    ],
    rows,
  );
}

function product(totals) {
  const text = `${totals.product_name} ${totals.product_version}, seen by ${totals.node}; `;
  return card("", h("p", {}, text, link("metrics", "metrics"), "."));
}
