// Charts of counters as rates, or of values as they are. They begin with what the nodes have
// recorded: the first look at an object asks for `samples()`, and goes on with what is seen.

import { RANGE, showAgain } from "./choices.js";
import { h, listen, svg } from "./dom.js";
import { choice, field } from "./forms.js";
import { patch } from "./patch.js";
import { clock, rate } from "./text.js";

const NAMES = ["one", "two", "three", "four", "five", "six", "seven"];
const COLOURS = NAMES.map((name) => `var(--${name})`);
// For those who see no colours.
const DASHES = [null, "7 3", "2 3", "9 3 2 3", "4 4", "12 4", "1 4"];
/** What charts can show: seconds, the words for it, and seconds between two samples of a node. */
export const RANGES = [
  ["60", "the last minute", 5],
  ["600", "the last 10 minutes", 5],
  ["3600", "the last hour", 60],
  ["86400", "the last 24 hours", 1800],
];
const FAMILIES = ["msg_rates", "lengths", "data_rates", "node_stats"];
const POINTS = 240; // at most, of a line
const WIDE = { width: 600, height: 160, left: 56, bottom: 20 };
const NARROW = { width: 330, height: 170, left: 52, bottom: 20 };
const isNarrow = matchMedia("(max-width: 40rem)");

function seconds() {
  return Number(RANGE.value) || 600;
}

/** Seconds between two samples. */
function stepOf() {
  return (RANGES.find(([range]) => range === RANGE.value) || RANGES[1])[2];
}

/** Query of a first look: samples of all families. */
export function samples() {
  const asked = FAMILIES.flatMap((family) => [
    [`${family}_age`, seconds()],
    [`${family}_incr`, stepOf()],
  ]);
  return Object.fromEntries(asked);
}

/** How far back the charts of a view go. */
export function rangeChoice() {
  const select = choice("range", RANGES.map(([range, words]) => [range, words]), RANGE.value);
  listen(select, "change", () => {
    RANGE.value = select.value;
    showAgain();
  });
  const kept = { class: "range", "data-keep": true, "data-key": "range" };
  return h("p", kept, field("Charts show", select));
}

/** What was seen over time: points of {at, values}, seconds and a figure for each name. */
export class Series {
  constructor() {
    this.points = [];
    this.now = {}; // the newest figures, also between two points
    this.last = null; // counters of the last look
    this.kept = null; // and of the last point
    this.seen = null; // where the pointer is, in seconds
  }

  /** Counters now; kept is their change per second. One that falls back has restarted. */
  observe(counters, atMs = performance.now()) {
    const it = { at: atMs / 1000, counters };
    if (this.last !== null && it.at > this.last.at) this.now = change(this.last, it);
    this.last = it;
    if (this.kept === null) this.kept = it;
    if (it.at - this.kept.at < this.step()) return;
    this.push({ at: it.at, values: change(this.kept, it) });
    this.kept = it;
  }

  /** Values as they are, not their change. */
  note(values, atMs = performance.now()) {
    this.now = values;
    const at = atMs / 1000;
    const before = this.points[this.points.length - 1];
    if (before && at - before.at < this.step()) return;
    this.push({ at, values });
  }

  /** Begin with the samples in `NAME_details`, newest first; of counters, with their change. */
  begin(counts, names, areCounters = true, atMs = performance.now()) {
    const points = new Map();
    const samplesOf = (name) => ((counts || {})[`${name}_details`] || {}).samples || [];
    const newest = Math.max(0, ...names.flatMap(samplesOf).map((each) => each.timestamp));
    // How old the newest one is, unless this clock and that of the node do not agree.
    const age = Date.now() - newest;
    const zero = atMs - newest - (age > 0 && age < 2000 * stepOf() ? age : 0);
    for (const name of names) {
      samplesOf(name).forEach((each, place, found) => {
        const before = found[place + 1];
        if (areCounters && before === undefined) return;
        const at = (zero + each.timestamp) / 1000;
        if (!points.has(at)) points.set(at, { at, values: {} });
        points.get(at).values[name] = areCounters ? speed(before, each) : each.sample;
      });
    }
    this.points = [...points.values()].sort((one, other) => one.at - other.at);
    if (this.points.length) this.now = this.points[this.points.length - 1].values;
  }

  /** Seconds between two points. */
  step() {
    return seconds() / POINTS;
  }

  push(point) {
    this.points.push(point);
    while (this.points[0].at < point.at - seconds()) this.points.shift();
  }

  /** The figures where the pointer is, or the newest. */
  shown() {
    return this.seen === null ? this.now : this.nearest(this.seen).values;
  }

  nearest(at) {
    const nearer = (one, other) => (Math.abs(other.at - at) < Math.abs(one.at - at) ? other : one);
    return this.points.reduce(nearer, { at: Infinity, values: {} });
  }

  end() {
    return this.points.length ? this.points[this.points.length - 1].at : performance.now() / 1000;
  }
}

function change(before, now) {
  const values = {};
  for (const [name, value] of Object.entries(now.counters)) {
    const other = before.counters[name];
    if (typeof value !== "number" || typeof other !== "number") continue;
    values[name] = Math.max(0, (value - other) / (now.at - before.at));
  }
  return values;
}

function speed(before, each) {
  const passed = (each.timestamp - before.timestamp) / 1000;
  return Math.max(0, (each.sample - before.sample) / passed);
}

/** The series as a picture with a legend. `lines`: [name, label] each; `format` is for figures. */
export function chart(title, series, lines, format = rate) {
  return h(
    "section",
    { class: "card", "data-key": `chart ${title}` },
    inside(title, series, lines, format),
  );
}

function inside(title, series, lines, format) {
  const figure = (name) => format(series.now[name]) || "unknown";
  const said = lines.map(([name, label]) => `${label} ${figure(name)}`).join(", ");
  const values = series.shown();
  const again = (section) => patch(section, ...inside(title, series, lines, format));
  return [
    h("h2", {}, title, h("small", { class: "moment" }, momentOf(series))),
    picture(series, lines, `${title}: ${said}`, format, again),
    h(
      "ul",
      { class: "legend" },
      lines.map(([name, label], place) =>
        h("li", {}, swatch(place), `${label} `, h("b", {}, format(values[name]))),
      ),
    ),
  ];
}

function momentOf(series) {
  return series.seen === null ? "" : clockAt(series.nearest(series.seen).at, true);
}

/** The reader's clock at a time of `performance`. */
function clockAt(at, isExact = false) {
  const ms = Date.now() - performance.now() + at * 1000;
  return clock(1000 * Math.round(ms / 1000), isExact || seconds() <= 600);
}

function swatch(place) {
  const line = svg("line", { x1: 0, x2: 24, y1: 3, y2: 3, "stroke-dasharray": DASHES[place % 7] });
  line.style.stroke = COLOURS[place % COLOURS.length];
  return svg("svg", { class: "swatch", viewBox: "0 0 24 6", "aria-hidden": "true" }, line);
}

function picture(series, lines, label, format, again) {
  const size = isNarrow.matches ? NARROW : WIDE;
  const values = series.points.flatMap((point) => lines.map(([name]) => point.values[name] || 0));
  const top = ceiling(Math.max(1, ...values));
  const box = `0 0 ${size.width} ${size.height}`;
  const image = svg("svg", { class: "chart", viewBox: box, role: "img", tabindex: "0" });
  image.setAttribute("aria-label", label);
  image.append(...axes(series, size, top, format));
  lines.forEach(([name], place) => {
    const path = lineOf(series, name, top, size);
    const line = svg("path", { d: path, "stroke-dasharray": DASHES[place % DASHES.length] });
    line.style.stroke = COLOURS[place % COLOURS.length];
    image.append(line);
  });
  if (series.seen !== null) {
    const x = xOf(series, series.nearest(series.seen).at, size);
    image.append(svg("line", { class: "pointer", x1: x, x2: x, y1: 6, y2: yOf(0, 1, size) }));
  }
  pointing(image, series, size, again);
  return image;
}

function axes(series, size, top, format) {
  const found = [];
  const text = (x, y, anchor, content) => {
    const element = svg("text", { x, y, "text-anchor": anchor });
    element.textContent = content;
    found.push(element);
  };
  for (const share of [0, 0.5, 1]) {
    const y = yOf(share * top, top, size);
    found.push(svg("line", { class: "grid", x1: size.left, x2: size.width, y1: y, y2: y }));
    text(size.left - 6, y + 4, "end", format(share * top));
  }
  const ticks = size === NARROW ? 2 : 4;
  for (let tick = 0; tick <= ticks; tick += 1) {
    const at = series.end() - seconds() * (1 - tick / ticks);
    const anchor = tick === 0 ? "start" : tick === ticks ? "end" : "middle";
    text(xOf(series, at, size), size.height - 5, anchor, clockAt(at));
  }
  return found;
}

/** Figures of another time than now: where the pointer is, or by the arrow keys. */
function pointing(image, series, size, again) {
  const at = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const x = ((event.clientX - box.left) * size.width) / box.width;
    return series.end() - (seconds() * (size.width - x)) / (size.width - size.left);
  };
  const show = (event, seen) => {
    series.seen = series.points.length ? seen : null;
    again(event.currentTarget.closest("section"));
  };
  const moved = (event, places) => {
    const found = series.points;
    const now = series.seen === null ? found.length : found.indexOf(series.nearest(series.seen));
    const point = found[Math.max(0, Math.min(found.length - 1, now + places))];
    event.preventDefault();
    show(event, point ? point.at : null);
  };
  listen(image, "pointermove", (event) => show(event, at(event)));
  listen(image, "pointerleave", (event) => show(event, null));
  listen(image, "blur", (event) => show(event, null));
  listen(image, "keydown", (event) => {
    if (event.key === "ArrowLeft") moved(event, -1);
    else if (event.key === "ArrowRight") moved(event, 1);
    else if (event.key === "Escape") show(event, null);
  });
}

/** 1, 2 or 5 times a power of ten, at least `value`. */
export function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 5, 10]) if (value <= step * power) return step * power;
  return 10 * power;
}

function yOf(value, top, size) {
  return 6 + (size.height - size.bottom - 6) * (1 - value / top);
}

function xOf(series, at, size) {
  return size.width - ((size.width - size.left) * (series.end() - at)) / seconds();
}

/** Gaps stay gaps: where no sample has the name, the line is broken. */
function lineOf(series, name, top, size) {
  let isBroken = true;
  return series.points
    .filter((point) => point.at >= series.end() - seconds())
    .map((point) => {
      const value = point.values[name];
      if (value === undefined) {
        isBroken = true;
        return "";
      }
      const start = isBroken ? "M" : "L";
      isBroken = false;
      const x = xOf(series, point.at, size);
      return `${start}${x.toFixed(1)} ${yOf(value, top, size).toFixed(1)}`;
    })
    .join("");
}
