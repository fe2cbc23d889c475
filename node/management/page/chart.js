// Live charts: counters as rates, or values as they are, of the last minutes. They begin with what
// the server sampled before, if the first look asks for HISTORY.

import { h, svg } from "./dom.js";
import { rate } from "./text.js";

const NAMES = ["one", "two", "three", "four", "five", "six", "seven"];
const COLOURS = NAMES.map((name) => `var(--${name})`);
// For those who see no colours.
const DASHES = [null, "7 3", "2 3", "9 3 2 3", "4 4", "12 4", "1 4"];
const WINDOW_S = 300;
const WIDTH = 600;
const HEIGHT = 144;
const LEFT = 52;
const BOTTOM = 18;

const STEP_S = 5;
/** Query of a first look: samples of all families. */
export const HISTORY = Object.fromEntries(
  ["msg_rates", "lengths", "data_rates"].flatMap((family) => [
    [`${family}_age`, WINDOW_S],
    [`${family}_incr`, STEP_S],
  ]),
);

/** What was seen over time: points of {at, values}, seconds and a figure for each name. */
export class Series {
  constructor() {
    this.points = [];
    this.last = null;
  }

  /** Counters now; kept is their change per second. One that falls back has restarted. */
  observe(counters, atMs = performance.now()) {
    const at = atMs / 1000;
    if (this.last !== null && at > this.last.at) {
      const values = {};
      for (const [name, value] of Object.entries(counters)) {
        const before = this.last.counters[name];
        if (typeof value !== "number" || typeof before !== "number") continue;
        values[name] = Math.max(0, (value - before) / (at - this.last.at));
      }
      this.push({ at, values });
    }
    this.last = { at, counters };
  }

  /** Values as they are, not their change. */
  note(values, atMs = performance.now()) {
    this.push({ at: atMs / 1000, values });
  }

  /** Begin with the samples in `NAME_details`, newest first; of counters, with their change. */
  begin(counts, names, areCounters = true, atMs = performance.now()) {
    const points = new Map();
    const samplesOf = (name) => ((counts || {})[`${name}_details`] || {}).samples || [];
    const newest = Math.max(0, ...names.flatMap(samplesOf).map((each) => each.timestamp));
    for (const name of names) {
      samplesOf(name).forEach((each, place, samples) => {
        const before = samples[place + 1];
        if (areCounters && before === undefined) return;
        const at = (atMs - newest + each.timestamp) / 1000;
        if (!points.has(at)) points.set(at, { at, values: {} });
        points.get(at).values[name] = areCounters ? speed(before, each) : each.sample;
      });
    }
    this.points = [...points.values()].sort((one, other) => one.at - other.at);
  }

  push(point) {
    this.points.push(point);
    while (this.points[0].at < point.at - WINDOW_S) this.points.shift();
  }

  newest(name) {
    return this.points.length ? this.points[this.points.length - 1].values[name] : undefined;
  }
}

function speed(before, each) {
  const seconds = (each.timestamp - before.timestamp) / 1000;
  return Math.max(0, (each.sample - before.sample) / seconds);
}

/** The series as a picture with a legend. `lines`: [name, label] each; `format` is for figures. */
export function chart(title, series, lines, format = rate) {
  const figure = (name) => format(series.newest(name)) || "unknown";
  const said = lines.map(([name, label]) => `${label} ${figure(name)}`).join(", ");
  return h(
    "section",
    { class: "card" },
    h("h2", {}, title),
    picture(series, lines, `${title}: ${said}`, format),
    h(
      "ul",
      { class: "legend" },
      lines.map(([name, label], place) =>
        h("li", {}, swatch(place), `${label} `, h("b", {}, format(series.newest(name)))),
      ),
    ),
  );
}

function swatch(place) {
  const line = svg("line", { x1: 0, x2: 24, y1: 3, y2: 3, "stroke-dasharray": DASHES[place % 7] });
  line.style.stroke = COLOURS[place % COLOURS.length];
  return svg("svg", { class: "swatch", viewBox: "0 0 24 6", "aria-hidden": "true" }, line);
}

function picture(series, lines, label, format) {
  const values = series.points.flatMap((point) => lines.map(([name]) => point.values[name] || 0));
  const top = ceiling(Math.max(1, ...values));
  const image = svg("svg", {
    class: "chart",
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: "img",
    "aria-label": label,
  });
  for (const share of [0, 0.5, 1]) {
    const y = yOf(share * top, top);
    image.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: y, y2: y }));
    const text = svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" });
    text.textContent = format(share * top);
    image.append(text);
  }
  lines.forEach(([name], place) => {
    const dash = DASHES[place % DASHES.length];
    const line = svg("path", { d: lineOf(series.points, name, top), "stroke-dasharray": dash });
    line.style.stroke = COLOURS[place % COLOURS.length];
    image.append(line);
  });
  return image;
}

/** 1, 2 or 5 times a power of ten, at least `value`. */
export function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 5, 10]) if (value <= step * power) return step * power;
  return 10 * power;
}

function yOf(value, top) {
  return 6 + (HEIGHT - BOTTOM - 6) * (1 - value / top);
}

/** Gaps stay gaps: where no sample has the name, the line is broken. */
function lineOf(points, name, top) {
  const end = points.length ? points[points.length - 1].at : 0;
  let isBroken = true;
  return points
    .map((point) => {
      const value = point.values[name];
      if (value === undefined) {
        isBroken = true;
        return "";
      }
      const start = isBroken ? "M" : "L";
      isBroken = false;
      const x = WIDTH - ((WIDTH - LEFT) * (end - point.at)) / WINDOW_S;
      return `${start}${x.toFixed(1)} ${yOf(value, top).toFixed(1)}`;
    })
    .join("");
}
