// Connections, their channels or sessions, and how to close one.

import { get, path, remove } from "./api.js";
import { bytes, card, count, danger, facts, h, json, state } from "./dom.js";
import { Listing, table } from "./table.js";

export function connections() {
  const listing = new Listing("connections", ["connections"], [
    { title: "Name", sort: "name", value: (row) => link(row) },
    { title: "User", sort: "user", value: (row) => row.user },
    { title: "Vhost", sort: "vhost", value: (row) => row.vhost },
    { title: "Node", sort: "node", value: (row) => row.node },
    { title: "State", sort: "state", value: (row) => state(row.state) },
    { title: "Protocol", sort: "protocol", value: (row) => row.protocol },
    { title: "Channels", sort: "channels", number: true, value: (row) => count(row.channels) },
    { title: "Received", number: true, value: (row) => bytes(row.recv_oct) },
    { title: "Sent", number: true, value: (row) => bytes(row.send_oct) },
    { title: "Client", value: (row) => product(row) },
  ]);
  const element = h("div", {}, h("h1", {}, "Connections"), listing.element);
  return { title: "Connections", element, everyMs: 5000, refresh: () => listing.refresh() };
}

function link(row) {
  const given = (row.client_properties || {}).connection_name || row.user_provided_name;
  return [h("a", { href: `#/connections/${encodeURIComponent(row.name)}` }, row.name), given ? h("div", { class: "empty" }, given) : null];
}

function product(row) {
  const client = row.client_properties || {};
  return [client.product, client.version].filter(Boolean).join(" ");
}

export function connection(name) {
  const element = h("div");
  return {
    title: name,
    element,
    everyMs: 3000,
    refresh: async () => {
      const row = await get(path(["connections", name]));
      const parts = await channelsOf(name, row);
      element.replaceChildren(
        h("h1", {}, name),
        card("", about(row), h("p", {}, closer(name))),
        ...parts,
        h("details", {}, h("summary", {}, "Everything the API tells"), json(row)),
      );
    },
  };
}

function about(row) {
  return facts([
    ["State", state(row.state)],
    ["User", row.user],
    ["Vhost", row.vhost],
    ["Protocol", row.protocol],
    ["From", row.peer_host ? `${row.peer_host}:${row.peer_port}` : ""],
    ["Node", row.node],
    ["Heartbeat", row.timeout ? `${row.timeout} s` : "off"],
    ["Largest frame", count(row.frame_max)],
    ["Connected", row.connected_at ? new Date(row.connected_at).toLocaleString() : ""],
    ["Client", product(row)],
  ]);
}

function closer(name) {
  return danger("Close this connection", `Close ${name}?`, async () => {
    await remove(path(["connections", name]), { "X-Reason": "closed on the management page" });
    location.hash = "#/connections";
  });
}

async function channelsOf(name, row) {
  if (String(row.protocol).includes("1-0") || String(row.protocol).includes("1.0")) {
    const sessions = await get(path(["connections", name, "sessions"])).catch(() => []);
    return sessions.map((session) => card(`Session ${session.channel_number ?? ""}`, json(session)));
  }
  const channels = await get(path(["connections", name, "channels"])).catch(() => []);
  if (!channels.length) return [];
  return [
    table(
      "channels",
      [
        { title: "Channel", number: true, value: (channel) => count(channel.number) },
        { title: "State", value: (channel) => state(channel.state) },
        { title: "Confirms", value: (channel) => (channel.confirm ? "yes" : "no") },
        { title: "Prefetch", number: true, value: (channel) => count(channel.prefetch_count) },
        { title: "Unacked", number: true, value: (channel) => count(channel.messages_unacknowledged) },
        { title: "Unconfirmed", number: true, value: (channel) => count(channel.messages_unconfirmed) },
        { title: "Consumers", number: true, value: (channel) => count(channel.consumer_count) },
      ],
      channels,
    ),
  ];
}
