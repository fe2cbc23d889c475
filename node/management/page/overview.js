// The first page: what flows, what waits, what is wrong, how the nodes are.

import { alarmNames, showAlarms } from "./alarms.js";
import { get, maybe, path } from "./api.js";
import { Series, chart, rangeChoice, samples } from "./chart.js";
import { bar, card, figures, h, link, state, tag } from "./dom.js";
import { patch } from "./patch.js";
import { table } from "./table.js";
import { address, bytes, count, duration, rate } from "./text.js";

const FLOW_LINES = [
  ["publish", "Publish"],
  ["confirm", "Publisher confirm"],
  ["deliver_get", "Deliver / get"],
  ["ack", "Consumer ack"],
  ["redeliver", "Redelivered"],
];
const WAITING_LINES = [["messages_ready", "Ready"], ["messages_unacknowledged", "Unacked"]];

/** What the charts show. */
class Charts {
  constructor() {
    this.flow = new Series();
    this.waiting = new Series();
    this.churn = new Series();
    this.published = new Series(); // by node
    this.queued = new Series(); // by node
  }

  /** With what the nodes have recorded. */
  begin(totals, nodes) {
    const names = nodes.map((node) => node.name);
    const byNode = (inside, name) => {
      const rates = (node) => (node[inside] || {})[`${name}_details`];
      const pairs = nodes.map((node) => [`${node.name}_details`, rates(node)]);
      return Object.fromEntries(pairs);
    };
    this.flow.begin(totals.message_stats, FLOW_LINES.map(([key]) => key));
    this.waiting.begin(totals.queue_totals, WAITING_LINES.map(([key]) => key), false);
    this.published.begin(byNode("message_stats", "publish"), names);
    this.queued.begin(byNode("queue_totals", "messages"), names, false);
  }

  observe(totals, nodes) {
    this.flow.observe(totals.message_stats || {});
    this.churn.observe(totals.churn_rates || {});
    this.waiting.note(totals.queue_totals || {});
    const published = {};
    const queued = {};
    for (const node of nodes) {
      if (node.message_stats) published[node.name] = node.message_stats.publish || 0;
      if (node.queue_totals) queued[node.name] = node.queue_totals.messages || 0;
    }
    this.published.observe(published);
    this.queued.note(queued);
  }
}

export function overview() {
  const element = h("div");
  const charts = new Charts();
  let isFirst = true;
  const refresh = async () => {
    const query = isFirst ? samples() : {};
    const [totals, nodes, map] = await Promise.all([
      get(path(["overview"], query)),
      maybe(path(["nodes"], query), []),
      maybe("cluster", { nodes: [] }),
    ]);
    if (isFirst) charts.begin(totals, nodes);
    isFirst = false;
    charts.observe(totals, nodes);
    showAlarms(nodes);
    patch(element, ...parts(totals, nodes, map, charts));
  };
  return { title: "Overview", element, everyMs: 2000, refresh };
}

function parts(totals, nodes, map, charts) {
  const running = nodes.filter((node) => node.running);
  const several = nodes.length > 1 && running.some((node) => node.queue_totals);
  return [
    h("h1", {}, totals.cluster_name || totals.node),
    rangeChoice(),
    h(
      "div",
      { class: "cards charts" },
      chart("Queued messages", charts.waiting, WAITING_LINES, count),
      chart("Message rates", charts.flow, FLOW_LINES, rate),
      several ? chart("Queued messages, by node", charts.queued, linesOf(nodes), count) : null,
      several ? chart("Publish, by node", charts.published, linesOf(nodes), rate) : null,
    ),
    card("Global counts", objects(totals)),
    nodes.length ? nodeTable(nodes, map.nodes) : null,
    churn(totals, charts.churn),
    listeners(totals.listeners),
    product(totals),
  ];
}

const linesOf = (nodes) => nodes.map((node) => [node.name, node.name]);

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
      { title: "Name", value: (node) => link(node.name, address("nodes", node.name)) },
      { title: "State", value: nodeState },
      { title: "Leads", number: true, value: (node) => count(leads.get(node.name)) },
      { title: "Uptime", value: live((node) => duration(node.uptime)) },
      { title: "Memory", value: live(memory) },
      { title: "Disk space", value: live(free) },
      { title: "File descriptors", number: true, value: live(files) },
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

function churn(totals, seen) {
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
    return [count(totals.churn_rates[kind]), " ", h("small", {}, rate(seen.now[kind]))];
  };
  const columns = [
    { title: "Churn since the start", value: (each) => each.what },
    { title: "Created", number: true, value: (each) => figure(each.kinds[0]) },
    { title: "Closed / deleted", number: true, value: (each) => figure(each.kinds[1]) },
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
