// Federation links, shovels and warm standbys: what they do, how far they are behind.

import { path, put, remove } from "./api.js";
import { h, state } from "./dom.js";
import { button, danger } from "./forms.js";
import { may } from "./session.js";
import { Listing } from "./table.js";
import { bytes, count } from "./text.js";

const FIGURES = [
  { title: "Node", value: (row) => row.node },
  { title: "Forwarded", number: true, value: (row) => count(row.messages_forwarded) },
  { title: "Bytes", number: true, value: (row) => bytes(row.bytes_forwarded) },
  { title: "Under way", number: true, value: (row) => count(row.in_flight) },
  { title: "Behind", number: true, value: behind },
  { title: "Last error", wide: true, value: (row) => row.error || row.reason || row.last_error },
];

export function links() {
  const parts = [linkPart(), shovelPart(), standbyPart()];
  const refresh = async () => {
    await Promise.all(parts.map((part) => part.listing.refresh()));
  };
  const section = (part) => h("section", {}, h("h2", {}, part.title), part.listing.element);
  const element = h("div", {}, h("h1", {}, "Links"), parts.map(section));
  return { title: "Links", element, everyMs: 5000, refresh };
}

function linkPart() {
  const columns = [
    { title: "Upstream", wide: true, value: (row) => row.upstream },
    { title: "Vhost", value: (row) => row.vhost },
    { title: "From", wide: true, value: (row) => row.upstream_exchange || row.upstream_queue },
    { title: "To", wide: true, value: (row) => `${row.type} ${row.exchange || row.queue}` },
    { title: "State", value: (row) => stateOf(row.status) },
    ...FIGURES,
    { title: "", value: (row) => linkActions(row, () => listing.refresh()) },
  ];
  const keyOf = (row) => row.id;
  const listing = new Listing("federation links", ["federation-links"], columns, { keyOf });
  return { title: "Federation", listing };
}

function shovelPart() {
  const columns = [
    { title: "Name", sort: "name", wide: true, value: (row) => row.name },
    { title: "Vhost", sort: "vhost", value: (row) => row.vhost },
    { title: "From", wide: true, value: (row) => end(row, "src") },
    { title: "To", wide: true, value: (row) => end(row, "dest") },
    { title: "State", sort: "state", value: (row) => stateOf(row.state) },
    ...FIGURES,
    { title: "", value: (row) => shovelActions(row, () => listing.refresh()) },
  ];
  const keyOf = (row) => JSON.stringify([row.vhost, row.name]);
  const listing = new Listing("shovels", ["shovels"], columns, { keyOf });
  return { title: "Shovels", listing };
}

function standbyPart() {
  const columns = [
    { title: "Vhost", sort: "vhost", wide: true, value: (row) => row.vhost },
    { title: "Primary", wide: true, value: (row) => row.uri },
    { title: "State", sort: "state", value: (row) => stateOf(row.state) },
    { title: "RPO", number: true, value: recoveryPoint },
    { title: "Queues", number: true, value: (row) => count(row.queues) },
    { title: "Messages", number: true, value: (row) => count(row.messages) },
    { title: "Bytes copied", number: true, value: (row) => bytes(row.bytes_copied) },
    { title: "Last error", wide: true, value: (row) => row.error || row.last_error },
  ];
  const listing = new Listing("standbys", ["standbys"], columns, { keyOf: (row) => row.vhost });
  return { title: "Warm standbys", listing };
}

/** How long ago the standby had all that the primary had confirmed. */
function recoveryPoint(row) {
  return row.rpo_seconds === null ? "unknown" : `${row.rpo_seconds} s`;
}

/** What a shovel takes from, or publishes to. */
function end(row, side) {
  if (row[`${side}_queue`]) return `queue ${row[`${side}_queue`]}`;
  if (row[`${side}_exchange`]) return `exchange ${row[`${side}_exchange`]}`;
  return row[`${side}_address`] || row[`${side}_uri`];
}

function stateOf(text) {
  const isBad = text === "error" || text === "terminated";
  return state(isBad ? "down" : text === "running" ? text : "waiting", text);
}

function behind(row) {
  if (row.lag_messages === undefined || row.lag_messages < 0) return "";
  const seconds = row.lag_seconds > 0 ? `, ${Math.round(row.lag_seconds)} s` : "";
  return count(row.lag_messages) + seconds;
}

function linkActions(row, again) {
  const place = ["federation-links", "vhost", row.vhost, row.id];
  return actions(row.status, `link ${row.id}`, [...place, row.node, "restart"], place, again);
}

function shovelActions(row, again) {
  const place = ["shovels", "vhost", row.vhost, row.name];
  const name = `shovel ${row.name}`;
  const gone = async () => {
    await remove(path(place));
    await again();
  };
  const found = actions(row.state, name, [...place, "restart"], place, again);
  if (found.length) found.push(danger("Delete", `Delete ${name}?`, gone));
  return found;
}

/** Restart, and pause or resume; nothing for those who may not. */
function actions(status, name, restart, place, again) {
  if (!may.setPolicies()) return [];
  const then = (act) => async () => {
    await act();
    await again();
  };
  const pause = path([...place, "pause"]);
  const isPaused = status === "paused";
  return [
    button("Restart", then(() => remove(path(restart))), "", `restart ${name}`),
    isPaused
      ? button("Resume", then(() => remove(pause)), "", `resume ${name}`)
      : button("Pause", then(() => put(pause, {})), "", `pause ${name}`),
  ];
}
