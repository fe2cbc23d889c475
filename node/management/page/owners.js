// One user, and one virtual host: who may do what, how much, and what is used.

import { get, maybe, path, put, remove } from "./api.js";
import { Series, chart, rangeChoice, samples } from "./chart.js";
import { card, facts, figures, fold, h, link, tag } from "./dom.js";
import { danger, field, form, input } from "./forms.js";
import { limitsOf } from "./limits.js";
import { patch } from "./patch.js";
import { callerName } from "./session.js";
import { table } from "./table.js";
import { address, count, rate, words } from "./text.js";
import { TAGS, kept, permissionPart, topicPart } from "./users.js";
import { actions, marks, states } from "./vhosts.js";

const DEPTH_LINES = [["messages_ready", "Ready"], ["messages_unacknowledged", "Unacked"]];
const FLOW_LINES = [
  ["publish", "Publish"],
  ["deliver_get", "Deliver / get"],
  ["ack", "Consumer ack"],
];

export function user(name) {
  const about = h("div");
  const used = h("div");
  const of = ["users", name];
  const parts = [permissionPart(of), topicPart(of), limitsOf("user", name)];
  const refresh = async () => {
    const [found, open] = await Promise.all([
      get(path(of)),
      maybe(path(["connections", "username", name]), []),
      ...parts.map((part) => part.refresh()),
    ]);
    patch(about, ...aboutUser(name, found));
    patch(used, h("h2", {}, "Connections"), connectionTable(open));
  };
  const changing = fold("Change tags or password", userForm(name, refresh));
  const element = h("div", {}, about, changing, parts.map((part) => part.element), used);
  return { title: name, element, everyMs: 10_000, refresh };
}

function aboutUser(name, found) {
  const gone = danger("Delete user", `Delete user ${name}?`, async () => {
    await remove(path(["users", name]));
    location.hash = "#/admin/users";
  });
  const shown = facts([
    ["Tags", words(found.tags).map((text) => tag(text))],
    ["Password", found.password_hash ? found.hashing_algorithm : "none"],
  ]);
  return [h("h1", {}, `User ${name}`), card("", shown, name === callerName() ? null : gone)];
}

function userForm(name, again) {
  const fields = [
    field("Password", input("password", { type: "password", autocomplete: "new-password" })),
    field("Tags", input("tags", { placeholder: TAGS })),
    h("p", { class: "all empty" }, "Without a password, the user keeps its own."),
  ];
  const act = async (values, element) => {
    const body = { tags: words(values.tags).map((each) => each.trim()).join(",") };
    Object.assign(body, values.password ? { password: values.password } : await kept(name));
    await put(path(["users", name]), body);
    element.reset();
    await again();
    return "saved";
  };
  return form(fields, "Save", act);
}

function connectionTable(rows) {
  const columns = [
    { title: "Name", wide: true, value: (row) => link(row.name, address("connections", row.name)) },
    { title: "Vhost", value: (row) => row.vhost },
    { title: "Node", value: (row) => row.node },
    { title: "Protocol", value: (row) => row.protocol },
  ];
  return table("connections", columns, rows, (row) => row.name);
}

export function vhost(name) {
  const about = h("div");
  const depth = new Series();
  const flow = new Series();
  const of = ["vhosts", name];
  const parts = [permissionPart(of), topicPart(of), limitsOf("vhost", name)];
  let isFirst = true;
  const refresh = async () => {
    const [found] = await Promise.all([
      get(path(of, isFirst ? samples() : {})),
      ...parts.map((part) => part.refresh()),
    ]);
    if (isFirst) {
      depth.begin(found, DEPTH_LINES.map(([key]) => key), false);
      flow.begin(found.message_stats, FLOW_LINES.map(([key]) => key));
    }
    isFirst = false;
    depth.note(found);
    flow.observe(found.message_stats || {});
    patch(about, ...aboutVhost(name, found, depth, flow, refresh));
  };
  const element = h("div", {}, about, parts.map((part) => part.element));
  return { title: name, element, everyMs: 5000, refresh };
}

function aboutVhost(name, found, depth, flow, again) {
  const chosen = `?vhost=${encodeURIComponent(name)}`;
  const there = (what) => link(what, address(what.toLowerCase()) + chosen);
  const shown = facts([
    ["Description", found.description],
    ["State", states(found)],
    ["Marks", marks(found)],
    ["Default queue type", found.default_queue_type],
    ["In it", ["Queues", "Exchanges", "Connections"].flatMap((what) => [there(what), " "])],
  ]);
  return [
    h("h1", {}, `Virtual host ${name}`),
    card("", figures([
      ["Ready", count(found.messages_ready)],
      ["Unacked", count(found.messages_unacknowledged)],
      ["Total", count(found.messages)],
    ])),
    rangeChoice(),
    h(
      "div",
      { class: "cards charts" },
      chart("Queued messages", depth, DEPTH_LINES, count),
      chart("Message rates", flow, FLOW_LINES, rate),
    ),
    card("", shown, h("p", { class: "tools" }, actions(found, again))),
  ];
}
