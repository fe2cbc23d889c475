// Virtual hosts: made and described, traced, protected, deleted.

import { path, post, put, remove } from "./api.js";
import { fold, link, state, tag } from "./dom.js";
import { button, check, choice, field, form, input } from "./forms.js";
import { Listing } from "./table.js";
import { address, count, words } from "./text.js";
import { deleter, editable } from "./users.js";

const TYPES = [["", "the usual type"], "classic", "quorum", "stream"];

export function vhosts() {
  const again = () => listing.refresh();
  const columns = [
    { title: "Name", sort: "name", wide: true, value: named },
    { title: "Description", sort: "description", wide: true, value: (row) => row.description },
    { title: "State", value: states },
    { title: "", value: marks },
    { title: "Default queue type", value: (row) => row.default_queue_type || "" },
    { title: "Messages", sort: "messages", number: true, value: (row) => count(row.messages) },
    { title: "", value: (row) => actions(row, again) },
  ];
  const listing = new Listing("virtual hosts", ["vhosts"], columns, { keyOf: (row) => row.name });
  return editable("Virtual hosts", listing, maker(again));
}

const named = (row) => link(row.name, address("vhosts", row.name));

export function states(row) {
  const found = Object.entries(row.cluster_state || {}).filter(([, text]) => text !== "running");
  if (!found.length) return state("running");
  return found.map(([node, text]) => tag(`${text} on ${node}`, "bad"));
}

export function marks(row) {
  return [
    row.tracing ? tag("traced", "warn") : null,
    row.protected_from_deletion ? tag("protected") : null,
    words(row.tags).map((text) => tag(text)),
  ];
}

export function actions(row, again) {
  const { name } = row;
  const traced = async () => {
    await put(path(["vhosts", name]), { tracing: !row.tracing });
    await again();
  };
  const protection = async () => {
    const where = path(["vhosts", name, "deletion", "protection"]);
    await (row.protected_from_deletion ? remove(where) : post(where));
    await again();
  };
  const isKept = row.protected_from_deletion;
  const tracing = row.tracing ? "Stop tracing" : "Trace";
  const question = `Delete ${name} with all its queues and messages?`;
  return [
    button(tracing, traced, "", `${tracing} ${name}`),
    button(isKept ? "Unprotect" : "Protect", protection, "", `${isKept} ${name}`),
    isKept ? null : deleter(question, ["vhosts", name], again),
  ];
}

function maker(again) {
  const fields = [
    field("Name", input("name", { required: true })),
    field("Description", input("description")),
    field("Tags", input("tags", { placeholder: "with commas" })),
    field("Default queue type", choice("default_queue_type", TYPES, "")),
    check("tracing", "trace its messages"),
  ];
  const act = async (values, element) => {
    const { name, description, tags, default_queue_type: type } = values;
    const body = { description, tags, tracing: values.tracing === "on" };
    if (type) body.default_queue_type = type;
    await put(path(["vhosts", name]), body);
    element.reset();
    await again();
    return "saved";
  };
  return fold("Add or change: Virtual hosts", form(fields, "Save", act));
}
