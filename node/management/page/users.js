// Users, their permissions in vhosts, and their topic permissions.

import { get, path, put, remove } from "./api.js";
import { VHOST } from "./choices.js";
import { fold, h, link, tag } from "./dom.js";
import { danger, field, form, input } from "./forms.js";
import { callerName } from "./session.js";
import { Listing } from "./table.js";
import { address, words } from "./text.js";

export const TAGS = "management, policymaker, monitoring, administrator";

export function users() {
  const parts = [userPart(), permissionPart(), topicPart()];
  const element = h("div", {}, parts.map((part) => part.element));
  const refresh = async () => {
    await Promise.all(parts.map((part) => part.refresh()));
  };
  return { element, refresh };
}

/** A heading, a listing and the form that adds to it. */
export function editable(title, listing, maker) {
  const element = h("section", {}, h("h2", {}, title), listing.element, maker);
  return { element, refresh: () => listing.refresh() };
}

export function deleter(question, segments, again) {
  return danger("Delete", question, async () => {
    await remove(path(segments));
    await again();
  });
}

export const userLink = (name) => link(name, address("users", name));

function userPart() {
  const again = () => listing.refresh();
  const gone = (user) => {
    if (user.name === callerName()) return "this is you";
    return deleter(`Delete user ${user.name}?`, ["users", user.name], again);
  };
  const columns = [
    { title: "Name", sort: "name", wide: true, value: (user) => userLink(user.name) },
    { title: "Tags", value: (user) => words(user.tags).map((text) => tag(text)) },
    { title: "Password", value: (user) => (user.password_hash ? user.hashing_algorithm : "none") },
    { title: "", value: gone },
  ];
  const listing = new Listing("users", ["users"], columns, { keyOf: (user) => user.name });
  return editable("Users", listing, userForm(again));
}

function userForm(again) {
  const secret = { type: "password", autocomplete: "new-password" };
  const fields = [
    field("Name", input("name", { required: true })),
    field("Password", input("password", secret)),
    field("Tags", input("tags", { placeholder: TAGS, list: "known-tags" })),
    h("datalist", { id: "known-tags" }, TAGS.split(", ").map((value) => h("option", { value }))),
  ];
  const text = "Without a password a user that is there keeps its own.";
  const act = async (values, element) => {
    const body = { tags: words(values.tags).map((each) => each.trim()).join(",") };
    Object.assign(body, values.password ? { password: values.password } : await kept(values.name));
    await put(path(["users", values.name]), body);
    element.reset();
    await again();
    return "saved";
  };
  const hint = h("p", { class: "all empty" }, text);
  return fold("Add or change: Users", form([...fields, hint], "Save", act));
}

/** The password of a user that is there; a new one gets none, and so cannot log in by password. */
export async function kept(name) {
  const user = await get(path(["users", name])).catch((error) => {
    if (error.status === 404) throw new Error("a new user needs a password");
    throw error;
  });
  return { password_hash: user.password_hash, hashing_algorithm: user.hashing_algorithm };
}

/** Permissions: all, or those of one user or vhost (`of`, such as ["users", NAME]). */
export function permissionPart(of = null) {
  const again = () => listing.refresh();
  const gone = (row) => {
    const question = `Take ${row.user}'s permissions in ${row.vhost}?`;
    return deleter(question, ["permissions", row.vhost, row.user], again);
  };
  const columns = [
    { title: "User", sort: "user", wide: true, value: (row) => userLink(row.user) },
    { title: "Vhost", sort: "vhost", value: (row) => row.vhost },
    { title: "Configure", wide: true, value: (row) => row.configure },
    { title: "Write", wide: true, value: (row) => row.write },
    { title: "Read", wide: true, value: (row) => row.read },
    { title: "", value: gone },
  ];
  const keyOf = (row) => JSON.stringify([row.user, row.vhost]);
  const where = of ? [...of, "permissions"] : ["permissions"];
  const listing = new Listing("permissions", where, columns, { keyOf, bare: of !== null });
  const fields = [
    ...whose(of),
    field("Configure", input("configure", { value: ".*" })),
    field("Write", input("write", { value: ".*" })),
    field("Read", input("read", { value: ".*" })),
  ];
  const act = async ({ user, vhost, ...rights }) => {
    await put(path(["permissions", vhost, user]), rights);
    await again();
    return "saved";
  };
  const maker = fold("Add or change: Permissions", form(fields, "Save", act));
  return editable("Permissions", listing, maker);
}

function whose(of) {
  const [kind, name] = of || ["", ""];
  const user = kind === "users" ? name : "";
  const vhost = kind === "vhosts" ? name : VHOST.value || "/";
  return [
    field("User", input("user", { value: user, required: true, readonly: user !== "" })),
    field("Vhost", input("vhost", { value: vhost, required: true, readonly: kind === "vhosts" })),
  ];
}

export function topicPart(of = null) {
  const again = () => listing.refresh();
  const gone = (row) => {
    const question = `Take ${row.user}'s topic permissions for ${row.exchange} in ${row.vhost}?`;
    return deleter(question, ["topic-permissions", row.vhost, row.user, row.exchange], again);
  };
  const columns = [
    { title: "User", sort: "user", wide: true, value: (row) => row.user },
    { title: "Vhost", sort: "vhost", value: (row) => row.vhost },
    { title: "Exchange", sort: "exchange", wide: true, value: (row) => row.exchange },
    { title: "Write", wide: true, value: (row) => row.write },
    { title: "Read", wide: true, value: (row) => row.read },
    { title: "", value: gone },
  ];
  const keyOf = (row) => JSON.stringify([row.user, row.vhost, row.exchange]);
  const options = { keyOf, bare: true };
  const where = of ? [...of, "topic-permissions"] : ["topic-permissions"];
  const listing = new Listing("topic permissions", where, columns, options);
  const fields = [
    ...whose(of),
    field("Exchange", input("exchange", { value: "amq.topic", required: true })),
    field("Keys it may publish with", input("write", { value: ".*" })),
    field("Keys it may bind with", input("read", { value: ".*" })),
  ];
  const act = async ({ user, vhost, ...rights }) => {
    await put(path(["topic-permissions", vhost, user]), rights);
    await again();
    return "saved";
  };
  const maker = fold("Add or change: Topic permissions", form(fields, "Save", act));
  return editable("Topic permissions", listing, maker);
}
