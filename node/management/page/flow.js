// The flow graph: who is held back by whom, now and so far. A picture for those who see it, and the
// same as a table.

import { get } from "./api.js";
import { card, h, note, svg, tag } from "./dom.js";
import { patch } from "./patch.js";
import { table } from "./table.js";
import { count, duration } from "./text.js";

const DRAWN = 60; // actors in the picture
const LISTED = 200; // pairs in the table
const WIDTH = 220; // of one column
const BOX = 168;
const HEIGHT = 34;
const LETTERS = 24; // of a name in a box

export function flow() {
  const element = h("div", {}, h("h1", {}, "Flow"));
  const shown = h("div");
  element.append(shown);
  return { title: "Flow", element, everyMs: 3000, refresh: () => refresh(shown) };
}

async function refresh(shown) {
  let graph;
  try {
    graph = await get("flow/graph");
  } catch (error) {
    if (error.status !== 404) throw error;
    patch(shown, note("This node does not tell who holds back whom.", "warn"));
    return;
  }
  const actors = new Map(graph.nodes.map((actor) => [actor.id, actor]));
  const known = graph.edges.filter((edge) => actors.has(edge.from) && actors.has(edge.to));
  const edges = known.sort((a, b) => isNow(b) - isNow(a) || blocked(b) - blocked(a));
  const held = edges.filter(isNow).length;
  patch(
    shown,
    h("p", { role: "status" }, `${held ? `${count(held)} are` : "Nobody is"} held back now.`),
    ...(graph.nodes_silent || []).map((name) => note(`${name} did not answer.`, "warn")),
    edges.length ? card("", picture(actors, edges)) : null,
    edgeTable(actors, edges),
    totals(graph.totals || []),
    graph.truncated ? note("There are more than are shown.", "warn") : null,
  );
}

const isNow = (edge) => (edge.since !== null && edge.since !== undefined ? 1 : 0);
const blocked = (edge) => edge.blocked_seconds || 0;

function nameOf(actor) {
  return actor.name || actor.kind;
}

function edgeTable(actors, edges) {
  const columns = [
    { title: "Held back", wide: true, value: (edge) => whole(actors.get(edge.from)) },
    { title: "By", wide: true, value: (edge) => whole(actors.get(edge.to)) },
    { title: "Because", wide: true, value: (edge) => edge.reason || "" },
    { title: "Now", value: since },
    { title: "In all", number: true, value: (edge) => duration(1000 * blocked(edge)) },
  ];
  const keyOf = (edge) => JSON.stringify([edge.from, edge.to]);
  return table("pairs", columns, edges.slice(0, LISTED), keyOf);
}

function whole(actor) {
  return [`${actor.kind} ${actor.name || ""}`, h("div", { class: "empty" }, `on ${actor.node}`)];
}

function since(edge) {
  if (!isNow(edge)) return "";
  return tag(`for ${duration(Math.max(0, Date.now() - edge.since))}`, "warn");
}

function totals(rows) {
  if (!rows.length) return null;
  const columns = [
    { title: "Of this kind", value: (row) => row.from },
    { title: "Held back by", value: (row) => row.to },
    { title: "On", value: (row) => row.node || "" },
    { title: "Times", number: true, value: (row) => count(row.times) },
    { title: "In all", number: true, value: (row) => duration(1000 * blocked(row)) },
  ];
  const keyOf = (row) => JSON.stringify([row.node, row.from, row.to]);
  return h("div", {}, h("h2", {}, "Since the start"), table("totals", columns, rows, keyOf));
}

/** Actors in columns, each left of those that hold it back. */
function picture(actors, edges) {
  const drawn = new Set();
  for (const edge of edges) {
    if (drawn.size < DRAWN) for (const id of [edge.from, edge.to]) drawn.add(id);
  }
  const lines = edges.filter((edge) => drawn.has(edge.from) && drawn.has(edge.to));
  const columns = layers([...drawn], lines);
  const places = new Map();
  columns.forEach((ids, column) => {
    ids.forEach((id, row) => places.set(id, { x: 8 + column * WIDTH, y: 8 + row * (HEIGHT + 14) }));
  });
  const rows = Math.max(...columns.map((ids) => ids.length));
  const [width, height] = [columns.length * WIDTH - WIDTH + BOX + 16, rows * (HEIGHT + 14) + 16];
  const label = `${drawn.size} actors; the table below says the same`;
  const viewBox = `0 0 ${width} ${height}`;
  const image = svg("svg", { class: "graph", viewBox, role: "img", "aria-label": label });
  image.style.maxWidth = `${width}px`;
  for (const edge of lines) image.append(arrow(places.get(edge.from), places.get(edge.to), edge));
  for (const [id, at] of places) image.append(box(actors.get(id), at));
  return image;
}

/** The longest way to each actor gives its column; a circle ends after as many steps as actors. */
export function layers(ids, edges) {
  const depth = new Map(ids.map((id) => [id, 0]));
  for (let step = 0; step < ids.length; step += 1) {
    let isDone = true;
    for (const { from, to } of edges) {
      const next = depth.get(from) + 1;
      if (from === to || depth.get(to) >= next || next >= ids.length) continue;
      depth.set(to, next);
      isDone = false;
    }
    if (isDone) break;
  }
  const used = [...new Set(depth.values())].sort((one, other) => one - other);
  return used.map((wanted) => ids.filter((id) => depth.get(id) === wanted));
}

function box(actor, at) {
  const name = nameOf(actor);
  const short = name.length > LETTERS ? `${name.slice(0, LETTERS - 1)}\u2026` : name;
  const kind = svg("text", { x: at.x + 8, y: at.y + 13, class: "kind" });
  kind.textContent = `${actor.kind} @ ${actor.node}`.slice(0, LETTERS + 4);
  const text = svg("text", { x: at.x + 8, y: at.y + 27 });
  text.textContent = short;
  const frame = svg("rect", { x: at.x, y: at.y, width: BOX, height: HEIGHT, rx: 6 });
  return svg("g", {}, frame, kind, text);
}

function arrow(from, to, edge) {
  const [x1, y1] = [from.x + BOX, from.y + HEIGHT / 2];
  const [x2, y2] = [to.x, to.y + HEIGHT / 2];
  const middle = (x1 + x2) / 2;
  const d = `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
  return svg("path", { d, class: isNow(edge) ? "now" : "past" });
}
