// Limits of vhosts and of users: how many connections, queues and channels they may have.

import { get, path, put, remove } from "./api.js";
import { fold, h } from "./dom.js";
import { choice, field, form, input, number } from "./forms.js";
import { patch } from "./patch.js";
import { table } from "./table.js";
import { count } from "./text.js";
import { deleter } from "./users.js";

const OF_VHOSTS = ["max-connections", "max-queues"];
const OF_USERS = ["max-connections", "max-channels"];

export function limits() {
  const ofVhosts = part("Limits of virtual hosts", "vhost-limits", "vhost", OF_VHOSTS);
  const ofUsers = part("Limits of users", "user-limits", "user", OF_USERS);
  const refresh = async () => {
    await Promise.all([ofVhosts.refresh(), ofUsers.refresh()]);
  };
  return { element: h("div", {}, ofVhosts.element, ofUsers.element), refresh };
}

/** Those of one vhost or user: `limitsOf("vhost", NAME)`. */
export function limitsOf(owner, name) {
  const isVhost = owner === "vhost";
  const names = isVhost ? OF_VHOSTS : OF_USERS;
  return part("Limits", isVhost ? "vhost-limits" : "user-limits", owner, names, name);
}

function part(title, where, owner, names, only = "") {
  const rows = h("div");
  const refresh = async () => {
    const found = await get(path(only ? [where, only] : [where]));
    const flat = found.flatMap((each) =>
      Object.entries(each.value).map(([limit, value]) => ({ owner: each[owner], limit, value })),
    );
    const columns = [
      { title: owner === "vhost" ? "Vhost" : "User", wide: true, value: (row) => row.owner },
      { title: "Limit", value: (row) => row.limit },
      { title: "At most", number: true, value: most },
      { title: "", value: (row) => gone(row, where, refresh) },
    ];
    const keyOf = (row) => JSON.stringify([row.owner, row.limit]);
    patch(rows, table(title.toLowerCase(), columns, flat, keyOf));
  };
  const maker = setter(title, where, owner, names, refresh, only);
  return { element: h("section", {}, h("h2", {}, title), rows, maker), refresh };
}

const most = (row) => (row.value < 0 ? "any" : count(row.value));

function gone(row, where, again) {
  return deleter(`Give up ${row.limit} of ${row.owner}?`, [where, row.owner, row.limit], again);
}

function setter(title, where, owner, names, again, only) {
  const who = { value: only, required: true, readonly: only !== "" };
  const fields = [
    field(owner === "vhost" ? "Vhost" : "User", input("owner", who)),
    field("Limit", choice("limit", names, names[0])),
    field("At most", input("value", { type: "number", min: "0", placeholder: "empty: any" })),
  ];
  const act = async (values) => {
    const at = path([where, values.owner, values.limit]);
    const value = number(values.value, "the limit");
    await (value === undefined ? remove(at) : put(at, { value }));
    await again();
    return "saved";
  };
  return fold(`Add or change: ${title}`, form(fields, "Save", act));
}
