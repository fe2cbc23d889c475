// Elements of the page. What comes from the broker is only ever put in as text.

/**
 * h("td", {class: "number"}, "12", [more]): properties that are functions are listeners. These are
 * kept in `listeners`, so that `patch` can hand them from a new element to the one that stays.
 */
export function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") listen(element, key, value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

export function listen(element, kind, act) {
  if (!element.listeners) element.listeners = {};
  if (!element.listeners[kind]) {
    element.addEventListener(kind, (event) => element.listeners[event.type]?.(event));
  }
  element.listeners[kind] = act;
}

/** Without what is not there. */
export function present(children) {
  const isThere = (each) => each !== null && each !== undefined && each !== "";
  return children.flat(Infinity).filter(isThere);
}

export function svg(name, properties = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(properties)) {
    if (value !== undefined && value !== null) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** <dl> of names and values that are there. */
export function facts(pairs) {
  const rows = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
  const row = ([name, value]) => [h("dt", {}, name), h("dd", {}, value)];
  return h("dl", { class: "facts" }, rows.map(row));
}

export function figures(pairs) {
  return h(
    "dl",
    { class: "figures" },
    pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

export function card(title, ...children) {
  return h("section", { class: "card" }, title ? h("h2", {}, title) : null, children);
}

/** A part that is opened by a click; what was typed in it outlives a renewal of the page. */
export function fold(title, ...children) {
  const summary = h("summary", {}, title);
  return h("details", { "data-keep": true, "data-key": title }, summary, card("", children));
}

export function note(text, kind = "bad") {
  return h("p", { class: `note ${kind}` }, text);
}

export function link(text, href) {
  return h("a", { href }, text);
}

export function tag(text, kind = "") {
  return h("span", { class: `tag ${kind}` }, text);
}

const BAD = ["crashed", "down", "minority", "stopped", "nodedown", "noproc"];
const DOUBTFUL = ["flow", "blocked", "blocking", "full", "idle", "syncing", "waiting"];

/** A queue's or connection's state, coloured by what it means; `shown` in its place. */
export function state(text, shown = text) {
  if (BAD.includes(text)) return tag(shown, "bad");
  if (DOUBTFUL.includes(text)) return tag(shown, "warn");
  return tag(shown || "running", "good");
}

export function json(value) {
  return h("pre", {}, JSON.stringify(value, null, 2));
}

/** Text that may be long, in a frame of its own. */
export function longText(label, text) {
  const frame = { class: "long", tabindex: "0", role: "region", "aria-label": label };
  return h("pre", frame, text);
}

/** A share of something as a bar; `said` tells it to those who do not see it. */
export function bar(share, said, isHigh = false) {
  const fill = h("i");
  fill.style.width = `${Math.max(0, Math.min(100, 100 * share)).toFixed(1)}%`;
  return h("div", { class: isHigh ? "bar high" : "bar", role: "img", "aria-label": said }, fill);
}
