// Addresses with limits: what they hold, their policies, and the publishers that they block.

import { get } from "./api.js";
import { VHOST } from "./choices.js";
import { h, link, note, state } from "./dom.js";
import { patch } from "./patch.js";
import { table } from "./table.js";
import { address, bytes, count } from "./text.js";

const COLUMNS = [
  { title: "Address", named: true, value: named },
  { title: "Vhost", value: (row) => row.vhost },
  { title: "Policy", value: (row) => row.policy },
  { title: "State", value: (row) => state(row.full ? "full" : "running") },
  { title: "Size", number: true, value: (row) => bytes(row.bytes) },
  { title: "Limit", number: true, value: (row) => bytes(row.max_size_bytes) || "none" },
  { title: "Messages", number: true, value: (row) => count(row.messages) },
  { title: "Message limit", number: true, value: messageLimit },
  { title: "Queues", number: true, value: (row) => count(row.queues) },
  { title: "Blocked publishers", number: true, value: (row) => count(row.blocked_publishers) },
  { title: "Granted", number: true, value: granted },
  { title: "Refused", number: true, value: (row) => count(row.refused) },
  { title: "Dropped", number: true, value: (row) => count(row.dropped) },
  { title: "Largest excess", number: true, value: (row) => bytes(row.over_bytes_max) },
];

export function addresses() {
  const rows = h("div");
  const about = note("Exchanges and queues that have address settings, by policy or argument.", "");
  const refresh = async () => {
    const keyOf = (row) => JSON.stringify([row.vhost, row.kind, row.name]);
    const found = (await get("addresses")).filter(isChosen);
    patch(rows, table("addresses", COLUMNS, found, keyOf));
  };
  const element = h("div", {}, h("h1", {}, "Addresses"), about, rows);
  return { title: "Addresses", element, everyMs: 5000, refresh };
}

const isChosen = (row) => VHOST.value === "" || row.vhost === VHOST.value;

function named(row) {
  const where = row.kind === "queue" ? "queues" : "exchanges";
  return link(`${row.kind} ${row.name}`, address(where, row.vhost, row.name));
}

function granted(row) {
  const size = row.granted_bytes ? ` (${bytes(row.granted_bytes)})` : "";
  return count(row.granted_credit) + size;
}

function messageLimit(row) {
  return row.max_size_messages < 0 ? "none" : count(row.max_size_messages);
}
