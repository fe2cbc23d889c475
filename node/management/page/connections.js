// Connections, their channels or sessions with links, and how to close one.

import { maybe, path, remove } from "./api.js";
import { channelColumns } from "./channels.js";
import { Series, chart, rangeChoice } from "./chart.js";
import { ofVhost } from "./choices.js";
import { card, facts, fold, h, json, link, state, tag } from "./dom.js";
import { danger } from "./forms.js";
import { may } from "./session.js";
import { Listing, table } from "./table.js";
import { address, bytes, count, when } from "./text.js";
import { watched } from "./watched.js";

const TRAFFIC_LINES = [["recv_oct", "From client"], ["send_oct", "To client"]];

export function connections() {
  const columns = [
    { title: "Name", sort: "name", named: true, value: named },
    { title: "User name", sort: "user", value: (row) => row.user },
    { title: "Vhost", sort: "vhost", value: (row) => row.vhost },
    { title: "Node", sort: "node", value: (row) => row.node },
    { title: "State", sort: "state", value: (row) => state(row.state) },
    { title: "SSL / TLS", sort: "ssl", value: (row) => (row.ssl ? tag("TLS", "good") : "") },
    { title: "Protocol", sort: "protocol", value: (row) => row.protocol },
    { title: "Channels", sort: "channels", number: true, value: (row) => count(row.channels) },
    traffic("From client", "recv_oct"),
    traffic("To client", "send_oct"),
    { title: "Client", value: product },
  ];
  const keyOf = (row) => row.name;
  const where = ofVhost(["connections"], (vhost) => ["vhosts", vhost, "connections"]);
  const listing = new Listing("connections", where, columns, { keyOf, main: true });
  const element = h("div", {}, h("h1", {}, "Connections"), listing.element);
  return { title: "Connections", element, everyMs: 5000, refresh: () => listing.refresh() };
}

function traffic(title, key) {
  const value = (row) => {
    const speed = (row[`${key}_details`] || {}).rate;
    const text = speed === undefined ? null : h("div", { class: "empty" }, `${bytes(speed)}/s`);
    return [bytes(row[key]), text];
  };
  return { title, sort: key, number: true, value };
}

function named(row) {
  const given = row.user_provided_name || (row.client_properties || {}).connection_name;
  const name = link(row.name, address("connections", row.name));
  return [name, given ? h("div", { class: "empty" }, given) : null];
}

function product(row) {
  const client = row.client_properties || {};
  return [client.product, client.version].filter(Boolean).join(" ");
}

export function connection(name) {
  const flow = new Series();
  return watched(name, ["connections", name], 3000, async (row, isFirst) => {
    const parts = await inside(name, row);
    if (isFirst) flow.begin(row, TRAFFIC_LINES.map(([key]) => key));
    flow.observe({ recv_oct: row.recv_oct, send_oct: row.send_oct });
    return [
      h("h1", {}, name),
      card("", about(row), may.close(row) ? h("p", {}, closer(name)) : null),
      rangeChoice(),
      chart("Data rates", flow, TRAFFIC_LINES, (value) => perSecond(value)),
      ...parts,
      fold("Client properties", json(row.client_properties || {})),
    ];
  });
}

function perSecond(value) {
  return value === undefined ? "" : `${bytes(value)}/s`;
}

function about(row) {
  return facts([
    ["State", state(row.state)],
    ["Name given", row.user_provided_name],
    ["User", row.user],
    ["Login", row.auth_mechanism],
    ["Vhost", row.vhost],
    ["Protocol", row.protocol],
    ["TLS", secrecy(row)],
    ["Certificate", row.peer_cert_subject],
    ["From", row.peer_host ? `${row.peer_host}:${row.peer_port}` : ""],
    ["Node", row.node],
    ["Heartbeat", row.timeout ? `${row.timeout} s` : "off"],
    ["Largest frame", bytes(row.frame_max)],
    ["Received", bytes(row.recv_oct)],
    ["Sent", bytes(row.send_oct)],
    ["Not yet taken by the client", bytes(row.send_pend)],
    ["Connected", when(row.connected_at)],
    ["Client", product(row)],
  ]);
}

function secrecy(row) {
  if (!row.ssl) return "no";
  return [row.ssl_protocol, row.ssl_cipher].filter(Boolean).join(", ") || "yes";
}

function closer(name) {
  return danger("Close this connection", `Close ${name}?`, async () => {
    await remove(path(["connections", name]), {
      headers: { "X-Reason": "closed on the management page" },
    });
    location.hash = "#/connections";
  });
}

/** Channels of AMQP 0-9-1, or sessions and links of AMQP 1.0. */
async function inside(name, row) {
  if (/1[-.]0/.test(String(row.protocol))) {
    const found = await maybe(path(["connections", name, "sessions"]), []);
    return found.map(session);
  }
  const found = await maybe(path(["connections", name, "channels"]), []);
  if (!found.length) return [];
  return [h("h2", {}, "Channels"), table("channels", channelColumns(), found, (each) => each.name)];
}

function session(found) {
  const links = [
    ...(found.incoming_links || []).map((each) => ({ ...each, way: "publishes to" })),
    ...(found.outgoing_links || []).map((each) => ({ ...each, way: "consumes from" })),
  ];
  return card(
    `Session ${found.channel_number}`,
    facts([
      ["Window in", count(found.incoming_window)],
      ["The client's window", count(found.remote_incoming_window)],
      ["Deliveries not settled", count(found.outgoing_unsettled_deliveries)],
    ]),
    table("links", linkColumns(), links, (each) => `${each.way} ${each.handle}`),
  );
}

function linkColumns() {
  const where = (each) => each.target_address || each.source_address || "(anonymous)";
  const settled = (each) => each.snd_settle_mode || (each.send_settled ? "settled" : "");
  return [
    { title: "Link", number: true, value: (each) => String(each.handle) },
    { title: "Name", wide: true, value: (each) => each.link_name },
    { title: "", value: (each) => each.way },
    { title: "Address", wide: true, value: where },
    { title: "Settled", value: settled },
    { title: "Credit", number: true, value: (each) => count(each.credit) },
    { title: "Deliveries", number: true, value: (each) => count(each.delivery_count) },
    { title: "Unconfirmed", number: true, value: (each) => count(each.unconfirmed_messages) },
    { title: "Queue", value: (each) => each.queue_name || "" },
  ];
}
