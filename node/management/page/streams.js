// Clients of the stream protocol: what they publish, what they read, and how far they are behind.

import { queueLink } from "./channels.js";
import { h, link, tag } from "./dom.js";
import { Listing } from "./table.js";
import { address, count } from "./text.js";

export function streams() {
  const parts = [consumers(), publishers()];
  const section = (each) => h("section", {}, h("h2", {}, each.title), each.listing.element);
  const refresh = async () => {
    await Promise.all(parts.map((each) => each.listing.refresh()));
  };
  const element = h("div", {}, h("h1", {}, "Stream clients"), parts.map(section));
  return { title: "Stream clients", element, everyMs: 5000, refresh };
}

const CLIENT = { title: "Connection", sort: "connection_details.name", wide: true, value: client };
const STREAM = { title: "Stream", sort: "queue.name", wide: true, value: stream };
const VHOST = { title: "Vhost", sort: "queue.vhost", value: (row) => row.queue.vhost };
const NODE = { title: "Node", value: (row) => row.connection_details.node };

function consumers() {
  const columns = [
    STREAM,
    VHOST,
    CLIENT,
    NODE,
    { title: "Group", wide: true, value: group },
    { title: "State", value: activity },
    figure("Credit", "credits"),
    figure("Consumed", "consumed"),
    figure("Offset", "offset"),
    figure("Behind", "offset_lag"),
  ];
  return { title: "Consumers", listing: listed("consumers", "subscription_id", columns) };
}

function publishers() {
  const columns = [
    STREAM,
    VHOST,
    CLIENT,
    NODE,
    { title: "Reference", wide: true, sort: "reference", value: (row) => row.reference },
    figure("Published", "published"),
    figure("Confirmed", "confirmed"),
    figure("Refused", "errored"),
  ];
  return { title: "Publishers", listing: listed("publishers", "publisher_id", columns) };
}

function listed(what, number, columns) {
  const keyOf = (row) => JSON.stringify([row.connection_details.name, row[number]]);
  return new Listing(`stream ${what}`, ["stream", what], columns, { keyOf });
}

function figure(title, key) {
  return { title, sort: key, number: true, value: (row) => count(row[key]) };
}

function stream(row) {
  return queueLink(row.queue);
}

function client(row) {
  const { name } = row.connection_details;
  return link(name, address("connections", name));
}

function group(row) {
  const { name, "super-stream": whole } = row.properties;
  return whole ? `${name} of ${whole}` : name;
}

function activity(row) {
  return tag(row.activity_status.replace("_", " "), row.active ? "good" : "warn");
}
