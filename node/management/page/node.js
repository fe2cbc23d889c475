// One node: its memory, files and disk, what it listens on, its configuration, the end of its log.

import { get, maybe, path } from "./api.js";
import { Series, chart, rangeChoice, samples } from "./chart.js";
import { maintenance } from "./cluster.js";
import { bar, card, facts, figures, fold, h, longText } from "./dom.js";
import { button } from "./forms.js";
import { nodeState } from "./overview.js";
import { patch } from "./patch.js";
import { may } from "./session.js";
import { table } from "./table.js";
import { bytes, count, duration } from "./text.js";

const LINES = 200; // of the log
const GAUGES = {
  "Memory used": [["mem_used", "Used"], bytes],
  "Disk free": [["disk_free", "Free"], bytes],
  "File descriptors": [["fd_used", "Used"], count],
  Sockets: [["sockets_used", "Used"], count],
};

export function node(name) {
  const about = h("div");
  const memory = h("div");
  const series = new Series();
  const element = h(
    "div",
    {},
    about,
    memory,
    may.administer() ? configuration(name) : null,
    may.administer() ? logTail(name) : null,
  );
  let isFirst = true;
  const refresh = async () => {
    const [row, parts] = await Promise.all([
      get(path(["nodes", name], isFirst ? samples() : {})),
      maybe(path(["nodes", name, "memory"]), null),
    ]);
    const names = Object.values(GAUGES).map(([[key]]) => key);
    if (isFirst) series.begin(row, names, false);
    isFirst = false;
    if (row.running) series.note(Object.fromEntries(names.map((key) => [key, row[key]])));
    patch(about, ...aboutOf(row, series));
    patch(memory, parts ? memoryTable(parts.memory) : null);
  };
  return { title: name, element, everyMs: 5000, refresh };
}

function aboutOf(row, series) {
  const charts = Object.entries(GAUGES).map(([title, [line, format]]) =>
    chart(title, series, [line], format),
  );
  return [
    h("h1", {}, `Node ${row.name} `, nodeState(row)),
    row.running ? card("", totals(row)) : null,
    row.running ? rangeChoice() : null,
    row.running ? h("div", { class: "cards charts" }, charts) : null,
    card("", facts(factsOf(row)), may.administer() ? maintenance(row, row) : null),
    (row.listeners || []).length ? listeners(row.listeners) : null,
  ];
}

function totals(row) {
  const share = (value, limit, said, isHigh) =>
    limit ? bar(value / limit, `${Math.round((100 * value) / limit)} % of ${said}`, isHigh) : "";
  const memory = [
    `${bytes(row.mem_used)} of ${bytes(row.mem_limit)}`,
    share(row.mem_used, row.mem_limit, "the memory that is allowed", row.mem_alarm),
  ];
  const files = [
    `${count(row.fd_used)} of ${count(row.fd_total)}`,
    share(row.fd_used, row.fd_total, "the file descriptors that are allowed", false),
  ];
  return figures([
    ["Memory", memory],
    ["Disk free", bytes(row.disk_free)],
    ["Alarm below", bytes(row.disk_free_limit)],
    ["File descriptors", files],
    ["Sockets", count(row.sockets_used)],
    ["Uptime", duration(row.uptime)],
  ]);
}

function factsOf(row) {
  return [
    ["Version", `${row.version || ""} ${row.build || ""}`.trim()],
    ["Process id", row.os_pid],
    ["Threads", row.proc_used ? count(row.proc_used) : ""],
    ["Cores of the machine", count(row.processors)],
    ["Data directory", row.db_dir],
    ["Machine", row.host_id],
    ["Zone", row.zone],
    ["Cannot reach", (row.partitions || []).join(", ")],
    ["Plug-ins that are built in", (row.enabled_plugins || []).join(", ")],
  ];
}

function listeners(rows) {
  const columns = [
    { title: "Protocol", value: (each) => each.protocol },
    { title: "Bound to", value: (each) => each.ip_address },
    { title: "Port", number: true, value: (each) => String(each.port) },
  ];
  return h("section", {}, h("h2", {}, "Ports and contexts"), table("listeners", columns, rows));
}

/** Parts of the resident size, the largest first. */
function memoryTable(memory) {
  const total = memory.total.rss;
  const rows = Object.entries(memory)
    .filter(([, size]) => typeof size === "number" && size > 0)
    .sort(([, one], [, other]) => other - one)
    .map(([name, size]) => ({ name, size }));
  const share = (each) => Math.round((100 * each.size) / total);
  const columns = [
    { title: "Part", value: (each) => each.name.replaceAll("_", " ") },
    { title: "Size", number: true, value: (each) => bytes(each.size) },
    { title: "Share", value: (each) => bar(each.size / total, `${share(each)} %`) },
  ];
  const rowsTable = table("memory", columns, rows, (each) => each.name);
  return h("section", {}, h("h2", {}, `Memory: ${bytes(total)} in use`), rowsTable);
}

function configuration(name) {
  const place = h("div");
  const show = async () => {
    const found = await get(path(["nodes", name, "config"]));
    place.replaceChildren(longText("configuration", JSON.stringify(found, null, 2)));
  };
  return fold("Configuration", button("Show", show), place);
}

function logTail(name) {
  const place = h("div");
  const show = async () => {
    const { lines } = await get(path(["nodes", name, "log"], { lines: LINES }));
    const text = longText("log", lines.join("\n"));
    place.replaceChildren(lines.length ? text : "nothing was logged");
    text.scrollTop = text.scrollHeight;
  };
  return fold("Log", button("Show the last lines", show), place);
}
