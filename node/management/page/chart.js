// Live charts: the rates of counters, as lines. Keeps the last minutes in memory.

import { h, rate, svg } from "./dom.js";

const COLOURS = ["var(--one)", "var(--two)", "var(--three)", "var(--four)"];
const POINTS = 120;
const WIDTH = 600;
const HEIGHT = 144;
const LEFT = 52;
const BOTTOM = 18;

/** Counters seen over time; `rates` gives the change per second between two looks. */
export class Series {
  constructor(names) {
    this.names = names;
    this.points = []; // {at, values}: seconds, one rate for each name
    this.last = null;
  }

  /** The counters now. One that falls back has begun anew, with the node. */
  observe(counters, atMs = performance.now()) {
    const at = atMs / 1000;
    if (this.last !== null && at > this.last.at) {
      const values = this.names.map((name) => {
        const change = (counters[name] || 0) - (this.last.counters[name] || 0);
        return Math.max(0, change / (at - this.last.at));
      });
      this.points.push({ at, values });
      if (this.points.length > POINTS) this.points.shift();
    }
    this.last = { at, counters };
  }

  /** Values as they are, not their change. */
  note(values, atMs = performance.now()) {
    this.points.push({ at: atMs / 1000, values });
    if (this.points.length > POINTS) this.points.shift();
  }

  newest() {
    return this.points.length ? this.points[this.points.length - 1].values : this.names.map(() => NaN);
  }
}

/** The series as a picture with a legend; `format` is for the figures. */
export function chart(title, series, labels, format = rate) {
  const newest = series.newest();
  const said = labels.map((label, place) => `${label} ${format(newest[place]) || "unknown"}`).join(", ");
  return h(
    "section",
    { class: "card" },
    h("h2", {}, title),
    picture(series, `${title}: ${said}`, format),
    h(
      "ul",
      { class: "legend" },
      labels.map((label, place) =>
        h("li", {}, swatch(place), `${label} `, h("b", {}, format(newest[place]))),
      ),
    ),
  );
}

function swatch(place) {
  const mark = h("span", { class: "swatch" });
  mark.style.background = COLOURS[place % COLOURS.length];
  return mark;
}

function picture(series, label, format) {
  const top = ceiling(Math.max(1, ...series.points.flatMap((point) => point.values)));
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
  series.names.forEach((_, place) => {
    const line = svg("path", { d: lineOf(series.points, place, top) });
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

function lineOf(points, place, top) {
  const width = (WIDTH - LEFT) / (POINTS - 1);
  const shift = POINTS - points.length;
  return points
    .map((point, at) => {
      const x = LEFT + (at + shift) * width;
      return `${at ? "L" : "M"}${x.toFixed(1)} ${yOf(point.values[place], top).toFixed(1)}`;
    })
    .join("");
}
