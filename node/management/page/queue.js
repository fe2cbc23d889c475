// One queue: what is in it, who leads it, who takes from it; get, publish, bind, purge, delete.

import { get, path, post, remove } from "./api.js";
import { bindingListing, queueBinder } from "./bindings.js";
import { consumerTable, flowTable } from "./channels.js";
import { Series, chart, rangeChoice, samples } from "./chart.js";
import { card, facts, figures, h, json, link, note } from "./dom.js";
import { features } from "./exchanges.js";
import { button, danger } from "./forms.js";
import { Members } from "./members.js";
import { getter } from "./messages.js";
import { patch } from "./patch.js";
import { publisher } from "./publish.js";
import { leaderOf, sizeOf, stateOf } from "./queues.js";
import { may } from "./session.js";
import { address, bytes, count, countOf, duration, rate, when } from "./text.js";

const FLOW_LINES = [
  ["publish", "Publish"],
  ["deliver_get", "Deliver / get"],
  ["ack", "Consumer ack"],
  ["redeliver", "Redelivered"],
];
const DEPTH_LINES = [["messages_ready", "Ready"], ["messages_unacknowledged", "Unacked"]];
const SELDOM = 3; // bindings and members are asked for with every third look

export function queue(vhost, name) {
  const about = h("div");
  const flow = new Series();
  const depth = new Series();
  const bindings = bindingListing(["queues", vhost, name, "bindings"]);
  const members = new Members(vhost, name);
  const element = h(
    "div",
    {},
    about,
    members.element,
    h("h2", {}, "Bindings"),
    bindings.element,
    getter(vhost, name),
    publisher(vhost, "", name),
    queueBinder(vhost, name),
  );
  let looks = 0;
  const refresh = async () => {
    const row = await get(path(["queues", vhost, name], looks ? {} : samples()));
    if (looks === 0) {
      flow.begin(row.message_stats, FLOW_LINES.map(([key]) => key));
      depth.begin(row, DEPTH_LINES.map(([key]) => key), false);
    }
    flow.observe(row.message_stats || {});
    if (row.counts_known !== false) depth.note(row);
    patch(about, ...aboutOf(vhost, name, row, flow, depth));
    if (looks % SELDOM === 0) await Promise.all([bindings.refresh(), members.refresh(row)]);
    looks += 1;
  };
  return { title: name, element, everyMs: 2000, refresh };
}

function aboutOf(vhost, name, row, flow, depth) {
  return [
    h("h1", {}, `Queue ${name}`),
    row.reason ? note(row.reason) : null,
    row.state === "crashed" && may.administer() ? accepter(vhost, name) : null,
    card("", totals(row)),
    rangeChoice(),
    h(
      "div",
      { class: "cards charts" },
      chart("Queued messages", depth, DEPTH_LINES, count),
      chart("Message rates", flow, FLOW_LINES, rate),
    ),
    card("", facts(factsOf(vhost, row)), actions(vhost, name, row)),
    consumerTable(row.consumer_details || [], row.leader || row.node),
    flowTable("Incoming from", row.incoming, (each) => each.exchange, "exchanges"),
  ];
}

function totals(row) {
  const capacity = row.consumer_capacity;
  return figures([
    ["Ready", countOf(row, "messages_ready")],
    ["Unacked", countOf(row, "messages_unacknowledged")],
    ["Total", countOf(row, "messages")],
    ["In memory", countOf(row, "messages_ram")],
    ["Bytes", sizeOf(row)],
    ["Consumers", countOf(row, "consumers")],
    ["Consumer capacity", typeof capacity === "number" ? `${Math.round(100 * capacity)} %` : ""],
  ]);
}

function factsOf(vhost, row) {
  const definition = row.effective_policy_definition || {};
  const given = row.arguments || {};
  const letters = given["x-dead-letter-exchange"] ?? definition["dead-letter-exchange"];
  const oldest = row.head_message_timestamp;
  return [
    ["State", stateOf(row)],
    ["Vhost", vhost],
    ["Type", row.type],
    ["Leader", leaderOf(row)],
    ["Features", features(row)],
    ["Arguments", Object.keys(given).length ? json(given) : ""],
    ["Effective policy definition", Object.keys(definition).length ? json(definition) : ""],
    ["Exclusive owner", ownerLink(row.owner_pid_details)],
    ["Single active consumer", (row.single_active_consumer_tag || "").toString()],
    ["Oldest message", oldest ? when(oldest * 1000) : ""],
    ["Idle", row.idle_since ? duration(Date.now() - Date.parse(row.idle_since)) : ""],
    ["Memory", row.memory ? bytes(row.memory) : ""],
    ["Dead letter exchange", letters === undefined ? "" : lettersTo(vhost, letters)],
  ];
}

function lettersTo(vhost, exchange) {
  return exchange ? link(exchange, address("exchanges", vhost, exchange)) : "the default exchange";
}

function ownerLink(owner) {
  return owner && owner.name ? link(owner.name, address("connections", owner.name)) : "";
}

/** What is in a queue whose node does not answer is unknown: nothing that removes it is offered. */
function actions(vhost, name, row) {
  if (row.counts_known === false) return null;
  return h(
    "p",
    { class: "tools" },
    link("Dead letters in it", address("queues", vhost, name, "letters")),
    purger(vhost, name),
    deleter(vhost, name, row),
  );
}

function purger(vhost, name) {
  const question = `Remove all ready messages of ${name}?`;
  const contents = path(["queues", vhost, name, "contents"]);
  return danger("Purge messages", question, () => remove(contents));
}

function deleter(vhost, name, row) {
  const used = row.consumers ? " It has consumers." : "";
  const question = `Delete queue ${name} with all its messages?${used}`;
  return danger("Delete queue", question, async () => {
    await remove(path(["queues", vhost, name]));
    location.hash = "#/queues";
  });
}

/** A damaged queue is served again, with what could be read of it. */
function accepter(vhost, name) {
  return button("Serve it with what could be read", async () => {
    if (!confirm(`Accept that some messages of ${name} may be lost?`)) return;
    await post(path(["queues", vhost, name, "actions"]), { action: "accept_damage" });
  });
}
