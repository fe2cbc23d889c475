// Users, permissions, vhosts, policies, definitions.

import { get, path, put, remove } from "./api.js";
import { card, choice, danger, field, form, h, input, parseObject, tag } from "./dom.js";
import { table } from "./table.js";

export function admin() {
  const element = h("div");
  return { title: "Admin", element, everyMs: 0, refresh: () => refresh(element) };
}

async function refresh(element) {
  const again = () => refresh(element);
  const [users, vhosts, permissions, policies] = await Promise.all(
    ["users", "vhosts", "permissions", "policies"].map((where) => get(where).catch((error) => error)),
  );
  element.replaceChildren(
    h("h1", {}, "Admin"),
    part("Users", users, (rows) => userTable(rows, again), userForm(again)),
    part("Permissions", permissions, (rows) => permissionTable(rows, again), permissionForm(again)),
    part("Virtual hosts", vhosts, (rows) => vhostTable(rows, again), vhostForm(again)),
    part("Policies", policies, (rows) => policyTable(rows, again), policyForm(again)),
    card("Definitions", h("p", {}, "All of the above, with exchanges, queues and bindings, as one JSON document."), exporter()),
  );
}

function part(title, rows, show, maker) {
  if (rows instanceof Error) return card(title, h("p", { class: "empty" }, rows.message));
  return h("section", {}, h("h2", {}, title), show(rows), h("details", {}, h("summary", {}, `Add or change: ${title}`), card("", maker)));
}

function userTable(users, again) {
  return table(
    "users",
    [
      { title: "Name", value: (user) => user.name },
      { title: "Tags", value: (user) => tags(user).map((text) => tag(text)) },
      { title: "", value: (user) => deleter(`Delete user ${user.name}?`, ["users", user.name], again) },
    ],
    users,
  );
}

function tags(user) {
  return Array.isArray(user.tags) ? user.tags : String(user.tags || "").split(",").filter(Boolean);
}

function userForm(again) {
  const fields = [
    field("Name", input("name", { required: true })),
    field("Password", input("password", { type: "password", required: true, autocomplete: "new-password" })),
    field("Tags", input("tags", { placeholder: "administrator,monitoring" })),
  ];
  return form(fields, "Save", async (values) => {
    await put(path(["users", values.name]), { password: values.password, tags: values.tags });
    await again();
  });
}

function permissionTable(permissions, again) {
  return table(
    "permissions",
    [
      { title: "User", value: (row) => row.user },
      { title: "Vhost", value: (row) => row.vhost },
      { title: "Configure", value: (row) => row.configure },
      { title: "Write", value: (row) => row.write },
      { title: "Read", value: (row) => row.read },
      {
        title: "",
        value: (row) => deleter(`Take ${row.user}'s permissions in ${row.vhost}?`, ["permissions", row.vhost, row.user], again),
      },
    ],
    permissions,
  );
}

function permissionForm(again) {
  const fields = [
    field("User", input("user", { required: true })),
    field("Vhost", input("vhost", { value: "/", required: true })),
    field("Configure", input("configure", { value: ".*" })),
    field("Write", input("write", { value: ".*" })),
    field("Read", input("read", { value: ".*" })),
  ];
  return form(fields, "Save", async ({ user, vhost, ...rights }) => {
    await put(path(["permissions", vhost, user]), rights);
    await again();
  });
}

function vhostTable(vhosts, again) {
  return table(
    "virtual hosts",
    [
      { title: "Name", value: (vhost) => vhost.name },
      { title: "Description", wide: true, value: (vhost) => vhost.description || "" },
      {
        title: "",
        value: (vhost) => deleter(`Delete ${vhost.name} with all its queues and messages?`, ["vhosts", vhost.name], again),
      },
    ],
    vhosts,
  );
}

function vhostForm(again) {
  const fields = [field("Name", input("name", { required: true })), field("Description", input("description"))];
  return form(fields, "Save", async (values) => {
    await put(path(["vhosts", values.name]), { description: values.description });
    await again();
  });
}

function policyTable(policies, again) {
  return table(
    "policies",
    [
      { title: "Vhost", value: (policy) => policy.vhost },
      { title: "Name", value: (policy) => policy.name },
      { title: "Pattern", value: (policy) => policy.pattern },
      { title: "Applies to", value: (policy) => policy["apply-to"] },
      { title: "Priority", number: true, value: (policy) => String(policy.priority) },
      { title: "Definition", wide: true, value: (policy) => JSON.stringify(policy.definition) },
      {
        title: "",
        value: (policy) => deleter(`Delete policy ${policy.name}?`, ["policies", policy.vhost, policy.name], again),
      },
    ],
    policies,
  );
}

function policyForm(again) {
  const kinds = ["all", "queues", "classic_queues", "quorum_queues", "exchanges"];
  const fields = [
    field("Vhost", input("vhost", { value: "/", required: true })),
    field("Name", input("name", { required: true })),
    field("Pattern", input("pattern", { required: true })),
    field("Applies to", choice("apply-to", kinds, "all")),
    field("Priority", input("priority", { type: "number", value: "0" })),
    h("label", { class: "all" }, "Definition (JSON)", h("textarea", { name: "definition", rows: 2 })),
  ];
  return form(fields, "Save", async (values) => {
    await put(path(["policies", values.vhost, values.name]), {
      pattern: values.pattern,
      "apply-to": values["apply-to"],
      priority: Number(values.priority),
      definition: parseObject(values.definition),
    });
    await again();
  });
}

function deleter(question, segments, again) {
  return danger("Delete", question, async () => {
    await remove(path(segments));
    await again();
  });
}

function exporter() {
  return form([], "Download", async () => {
    const text = JSON.stringify(await get("definitions"), null, 2);
    const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    h("a", { href: address, download: "warren-definitions.json" }).click();
    URL.revokeObjectURL(address);
  });
}
