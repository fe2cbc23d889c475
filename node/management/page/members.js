// Members of a quorum queue or stream: who leads, how far each log is, who is to come or to go.

import { maybe, path, post, remove } from "./api.js";
import { h, state, tag } from "./dom.js";
import { button, danger, field, form, input } from "./forms.js";
import { patch } from "./patch.js";
import { may } from "./session.js";
import { table } from "./table.js";
import { bytes, count } from "./text.js";

/** The part of a queue's page about its members; empty for queues that have none. */
export class Members {
  constructor(vhost, name) {
    this.where = ["queues", "quorum", vhost, name];
    this.rows = h("div");
    this.adding = null;
    this.element = h("div", {}, this.rows);
  }

  async refresh(queue) {
    if (!queue.members) return;
    const [status, nodes] = await Promise.all([
      maybe(path([...this.where, "status"]), []),
      may.administer() ? maybe("nodes", []) : [],
    ]);
    const leader = status.find((row) => row["Raft State"] === "leader");
    const columns = this.columns(queue, leader);
    const rows = status.length ? status : queue.members.map((name) => ({ "Node Name": name }));
    const shown = table("members", columns, rows, (row) => row["Node Name"]);
    patch(this.rows, h("h2", {}, "Members"), shown);
    const free = nodes.filter((node) => node.running && !queue.members.includes(node.name));
    this.offer(free.map((node) => node.name));
  }

  columns(queue, leader) {
    const isLeader = (row) => row["Node Name"] === queue.leader;
    const figure = (title, key) => ({ title, number: true, value: (row) => count(row[key]) });
    const columns = [
      { title: "Node", value: (row) => row["Node Name"] },
      { title: "State", value: (row) => memberState(row, isLeader(row)) },
      { title: "Behind", number: true, value: (row) => lag(row, leader) },
      figure("Last entry", "Last Log Index"),
      figure("On disk", "Last Written"),
      figure("Committed", "Commit Index"),
      figure("Applied", "Last Applied"),
      figure("Snapshot", "Snapshot Index"),
      figure("Term", "Term"),
      ...(queue.type === "stream" ? segments() : []),
    ];
    if (!may.administer()) return columns;
    const actions = (row) => this.actions(row["Node Name"], isLeader(row));
    return [...columns, { title: "", value: actions }];
  }

  actions(node, isLeader) {
    const lead = async () => {
      await post(path([...this.where, "leader"]), { node });
      return "asked for";
    };
    const leave = () => remove(path([...this.where, "replicas", "delete"]), { body: { node } });
    return [
      isLeader ? null : button("Let it lead", lead, "", `lead ${node}`),
      danger("Remove", `Remove the member on ${node}?`, leave),
    ];
  }

  /** A form for one more member, where there is a node for it. */
  offer(free) {
    if (!may.administer() || !free.length) {
      if (this.adding) this.adding.hidden = true;
      return;
    }
    if (this.adding === null) this.make();
    this.adding.hidden = false;
    patch(this.known, ...free.map((value) => h("option", { value, "data-key": value })));
  }

  make() {
    this.known = h("datalist", { id: "nodes-without-member" });
    const fields = [field("Node", input("node", { required: true, list: "nodes-without-member" }))];
    const add = async (values) => {
      await post(path([...this.where, "replicas", "add"]), { node: values.node });
      return "added";
    };
    const inside = form(fields, "Add a member", add);
    this.adding = h("section", { class: "card" }, inside, this.known);
    this.element.append(this.adding);
  }
}

/** What a member of a stream has in files, and what is in the object store. */
function segments() {
  const figure = (title, key) => ({ title, number: true, value: (row) => count(row[key]) });
  const size = (title, key) => ({ title, number: true, value: (row) => bytes(row[key]) });
  return [
    figure("First offset", "Stream First Offset"),
    figure("Next offset", "Stream Next Offset"),
    figure("Readers", "Stream Readers"),
    figure("Segments", "Stream Segments"),
    size("Size", "Stream Bytes"),
    figure("Offloaded", "Stream Segments Offloaded"),
    size("Size there", "Stream Bytes Offloaded"),
    { title: "Offload error", wide: true, value: (row) => row["Stream Offload Error"] || "" },
  ];
}

export function memberState(row, isLeader) {
  const kind = row["Raft State"];
  const notYet = row.Membership && !["voter", ""].includes(row.Membership);
  return [
    isLeader ? tag("leader", "good") : state(kind || "member"),
    notYet ? tag(row.Membership, "warn") : null,
  ];
}

/** Entries that the leader has and this member lacks. */
export function lag(row, leader) {
  if (!leader || row["Last Written"] === "" || row["Last Written"] === undefined) return "";
  const behind = Math.max(0, Number(leader["Last Log Index"]) - Number(row["Last Written"]));
  return behind > 0 ? tag(count(behind), "warn") : "0";
}
