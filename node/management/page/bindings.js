// Bindings of a queue or an exchange: shown, made, taken away.

import { path, post, remove } from "./api.js";
import { fold, link } from "./dom.js";
import { area, choice, danger, field, form, input, parseObject } from "./forms.js";
import { Listing } from "./table.js";
import { address } from "./text.js";

/** Those below `segments` of the API, page by page. */
export function bindingListing(segments, what = "bindings") {
  const again = () => listing.again();
  const columns = [
    { title: "From", sort: "source", wide: true, value: origin },
    { title: "Key", sort: "routing_key", wide: true, value: (row) => row.routing_key },
    { title: "To", sort: "destination", wide: true, value: target },
    { title: "Arguments", wide: true, value: given },
    { title: "", value: (row) => (row.source ? unbinder(row, again) : null) },
  ];
  const listing = new Listing(what, segments, columns, { keyOf, bare: true, size: 20 });
  return listing;
}

function keyOf(row) {
  const to = [row.destination_type, row.destination, row.properties_key];
  return JSON.stringify([row.vhost, row.source, ...to]);
}

export function exchangeLink(vhost, name) {
  return name ? link(name, address("exchanges", vhost, name)) : "(default)";
}

const origin = (row) => exchangeLink(row.vhost, row.source);

function target(row) {
  const { vhost, destination } = row;
  if (row.destination_type === "exchange") return ["exchange ", exchangeLink(vhost, destination)];
  return ["queue ", link(destination, address("queues", vhost, destination))];
}

function given(row) {
  return Object.keys(row.arguments || {}).length ? JSON.stringify(row.arguments) : "";
}

function unbinder(row, again) {
  const kind = row.destination_type === "exchange" ? "e" : "q";
  const segments = ["bindings", row.vhost, "e", row.source, kind, row.destination];
  const ends = `from ${row.source} to ${row.destination}`;
  const question = `Take away the binding ${ends} by "${row.routing_key}"?`;
  return danger("Unbind", question, async () => {
    await remove(path([...segments, row.properties_key]));
    await again();
  });
}

/** Bind this queue to an exchange that is named. */
export function queueBinder(vhost, name) {
  const act = async (values) => {
    await post(path(["bindings", vhost, "e", values.source, "q", name]), body(values));
    return "bound";
  };
  const fields = [field("From exchange", input("source", { required: true })), ...common()];
  return fold("Bind to an exchange", form(fields, "Bind", act));
}

/** Bind something to this exchange. */
export function exchangeBinder(vhost, name) {
  const act = async (values) => {
    const end = ["bindings", vhost, "e", name, values.kind, values.destination];
    await post(path(end), body(values));
    return "bound";
  };
  const fields = [
    field("To", choice("kind", [["q", "queue"], ["e", "exchange"]], "q")),
    field("Its name", input("destination", { required: true })),
    ...common(),
  ];
  return fold("Bind something to this exchange", form(fields, "Bind", act));
}

function common() {
  return [field("Key", input("routing_key")), area("arguments", "Arguments (JSON)", 1)];
}

function body(values) {
  return { routing_key: values.routing_key, arguments: parseObject(values.arguments) };
}
