// The map of the cluster: which node leads which queue, who has members, whose clients are remote
// from their leader, how far logs are behind; and maintenance.

import { get, maybe, path, post, remove } from "./api.js";
import { queueLink } from "./channels.js";
import { bar, card, h, link, note, tag } from "./dom.js";
import { button, danger } from "./forms.js";
import { lag } from "./members.js";
import { nodeState } from "./overview.js";
import { patch } from "./patch.js";
import { stateOf } from "./queues.js";
import { may } from "./session.js";
import { Listing, table } from "./table.js";
import { address, count, duration } from "./text.js";

const COLUMNS = "vhost,name,type,node,leader,members,online,state,reason";
const REMOTE_MAX = 200; // rows shown of clients that are remote

export function cluster() {
  const about = h("div");
  const map = new QueueMap();
  const remote = h("div");
  const element = h(
    "div",
    {},
    h("h1", {}, "Cluster"),
    about,
    may.administer() ? spreader() : null,
    h("h2", {}, "Which node leads which queue"),
    map.element,
    h("h2", {}, "Clients that are remote from their leader"),
    card("", button("Look for them", () => findRemote(remote)), remote),
  );
  const refresh = async () => {
    const [told, nodes] = await Promise.all([maybe("cluster", null), get("nodes")]);
    const members = told ? told.nodes : nodes.map((node) => ({ ...node, leads: 0 }));
    const alone = note("This node is in no cluster.", "warn");
    patch(about, told ? null : alone, places(members, nodes));
    await map.refresh(members.map((member) => member.name));
  };
  return { title: "Cluster", element, everyMs: 5000, refresh };
}

/** The nodes by zone and machine. */
function places(members, nodes) {
  const byPlace = new Map();
  for (const member of members) {
    const place = [member.zone, member.host_id].filter(Boolean).join(" / ") || "no zone told";
    byPlace.set(place, [...(byPlace.get(place) || []), member]);
  }
  const most = Math.max(1, ...members.map((member) => member.leads || 0));
  const rows = new Map(nodes.map((node) => [node.name, node]));
  const part = (member) => nodePart(member, rows.get(member.name) || member, most);
  const cards = [...byPlace].map(([place, found]) =>
    card(place, h("div", { class: "places" }, found.map((member) => part(member)))),
  );
  return h("div", { class: "cards" }, cards);
}

function nodePart(member, node, most) {
  const text = `${count(member.leads)} queues led or at home here`;
  return h(
    "div",
    { class: "place", "data-key": member.name },
    h("h3", {}, link(member.name, address("nodes", member.name)), " ", nodeState(node)),
    h("div", { class: "empty" }, text, node.running ? `, up for ${duration(node.uptime)}` : ""),
    bar((member.leads || 0) / most, text),
    member.amqp ? h("div", { class: "empty" }, `clients: ${member.amqp}`) : null,
    may.administer() ? maintenance(member, node) : null,
  );
}

export function maintenance(member, node) {
  const { name } = member;
  if (!node.running) {
    const question = `Take ${name} out of the cluster for good?`;
    return danger("Forget this node", question, () => remove(path(["nodes", name])));
  }
  if (node.being_drained) {
    const back = () => post(path(["nodes", name, "revive"]), {}).then(() => "back in service");
    return button("Revive", back, "", `revive ${name}`);
  }
  const question = `Drain ${name}? Its clients are disconnected and its leaders move away.`;
  return danger("Drain", question, async () => {
    const report = await post(path(["nodes", name, "drain"]), {});
    const stuck = (report.still_led_here || []).length;
    const left = stuck ? `, ${count(stuck)} still led here` : "";
    const moved = `${count(report.leaders_moved)} leaders moved`;
    const classic = report.classic_queues_here;
    const stay = classic ? `, ${count(classic)} classic queues stay on it` : "";
    return `${count(report.connections_closed)} connections closed, ${moved}${left}${stay}`;
  });
}

function spreader() {
  const spread = async () => {
    const rows = await post("rebalance/queues", {});
    return table("leaders after it", Object.keys(rows[0] || {}).map(plainColumn), rows);
  };
  const question = "Move leaders of quorum queues until they are spread evenly?";
  return card("", danger("Spread the leaders", question, spread));
}

function plainColumn(title) {
  return { title, value: (row) => String(row[title]) };
}

/** Queues as rows, nodes as columns; rebuilt when nodes come or go. */
class QueueMap {
  constructor() {
    this.names = [];
    this.listing = null;
    this.lags = new Map(); // by vhost and name: node -> what is shown
    this.place = h("div");
    const look = button("How far are their logs behind?", () => this.findLags());
    this.element = h("div", {}, this.place, card("", look));
  }

  async refresh(names) {
    if (this.listing === null || names.join("\n") !== this.names.join("\n")) this.make(names);
    await this.listing.refresh();
  }

  make(names) {
    this.names = names;
    const columns = [
      { title: "Vhost", sort: "vhost", value: (row) => row.vhost },
      { title: "Queue", sort: "name", wide: true, value: queueLink },
      { title: "Type", sort: "type", value: (row) => row.type },
      { title: "State", sort: "state", value: stateOf },
      ...names.map((name) => ({ title: name, value: (row) => this.cell(row, name) })),
    ];
    this.listing = new Listing("queues", ["queues"], columns, {
      query: { columns: COLUMNS },
      keyOf,
      size: 20,
      seen: (rows) => {
        this.rows = rows;
      },
    });
    this.place.replaceChildren(this.listing.element);
  }

  cell(row, node) {
    if (!row.members) return row.node === node ? tag("home", "good") : "";
    if (!row.members.includes(node)) return "";
    const behind = (this.lags.get(keyOf(row)) || new Map()).get(node);
    return [memberTag(row, node), behind ? [" ", behind] : null];
  }

  /** Asks for the quorum queues that are shown, one after the other. */
  async findLags() {
    this.lags.clear();
    for (const row of this.rows || []) {
      if (!row.members) continue;
      const where = path(["queues", "quorum", row.vhost, row.name, "status"]);
      const status = await maybe(where, []);
      const leader = status.find((each) => each["Raft State"] === "leader");
      const found = status.map((each) => [each["Node Name"], lag(each, leader)]);
      this.lags.set(keyOf(row), new Map(found));
    }
    await this.listing.refresh();
    return "entries that a member lacks are shown beside it";
  }
}

const keyOf = (row) => JSON.stringify([row.vhost, row.name]);

function memberTag(row, node) {
  if (row.leader === node) return tag("leader", "good");
  if (!(row.online || []).includes(node)) return tag("away", "bad");
  return tag("member");
}

/** Consumers whose connection is to another node than the one that leads their queue. */
async function findRemote(place) {
  const consumers = await maybe("consumers", null);
  if (consumers === null) return "this node does not list consumers";
  const queues = await get(path(["queues"], { columns: "vhost,name,node,leader" }));
  const leaders = new Map(queues.map((row) => [keyOf(row), row.leader || row.node]));
  const rows = consumers.map((row) => ({ row, leader: leaders.get(keyOf(row.queue)) }));
  const remote = rows.filter(({ row, leader }) => leader && nodeOf(row) && nodeOf(row) !== leader);
  const columns = [
    { title: "Connection", wide: true, value: ({ row }) => connectionLink(row) },
    { title: "Is at", value: ({ row }) => nodeOf(row) },
    { title: "Consumes from", wide: true, value: ({ row }) => queueLink(row.queue) },
    { title: "Led by", value: ({ leader }) => leader },
  ];
  const shown = remote.slice(0, REMOTE_MAX);
  place.replaceChildren(
    h("p", {}, `${count(remote.length)} of ${count(consumers.length)} consumers are remote.`),
    shown.length ? table("remote consumers", columns, shown) : "",
  );
  return null;
}

const nodeOf = (row) => (row.channel_details || {}).node;

function connectionLink(row) {
  const name = (row.channel_details || {}).connection_name || "";
  return name ? link(name, address("connections", name)) : "";
}
