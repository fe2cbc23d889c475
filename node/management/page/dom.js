// Elements, figures and time as text. What comes from the broker is only ever put in as text.

/** h("td", {class: "number"}, "12", [more]): properties that are functions are listeners. */
export function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

export function svg(name, properties = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(properties)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function count(value) {
  return value === undefined || value === null ? "" : Number(value).toLocaleString("en");
}

export function rate(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return "";
  return `${value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(1)}/s`;
}

export function bytes(value) {
  if (value === undefined || value === null || value < 0) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  while (value >= 1024 && place < units.length - 1) {
    value /= 1024;
    place += 1;
  }
  return `${place === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[place]}`;
}

export function duration(ms) {
  const seconds = Math.floor(ms / 1000);
  const days = Math.floor(seconds / 86400);
  const hours = Math.floor(seconds / 3600) % 24;
  const minutes = Math.floor(seconds / 60) % 60;
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

/** <dl> of names and values that are there. */
export function facts(pairs) {
  const rows = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return h("dl", { class: "facts" }, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
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

export function tag(text, kind = "") {
  return h("span", { class: `tag ${kind}` }, text);
}

/** A queue's or connection's state, coloured by what it means. */
export function state(text) {
  if (["crashed", "down", "minority", "stopped"].includes(text)) return tag(text, "bad");
  if (["flow", "blocked", "blocking", "idle"].includes(text)) return tag(text, "warn");
  return tag(text || "running", "good");
}

export function json(value) {
  return h("pre", {}, JSON.stringify(value, null, 2));
}

/** A field of a form with its label. */
export function field(label, input) {
  return h("label", {}, label, h("br"), input);
}

export function input(name, more = {}) {
  return h("input", { name, autocomplete: "off", spellcheck: "false", ...more });
}

export function choice(name, values, chosen) {
  return h(
    "select",
    { name },
    values.map((value) => h("option", { value, selected: value === chosen }, value || "-")),
  );
}

/** A form that calls `act` with its values; says what went wrong, and forbids a second click. */
export function form(fields, label, act, kind = "main") {
  const told = h("p", { class: "all", role: "alert" });
  const button = h("button", { class: kind, type: "submit" }, label);
  const element = h("form", { class: "form" }, fields, button, told);
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    told.replaceChildren();
    try {
      const answer = await act(Object.fromEntries(new FormData(element)));
      if (answer) told.replaceChildren(answer);
    } catch (error) {
      told.replaceChildren(h("span", { class: "note bad" }, error.message));
    } finally {
      button.disabled = false;
    }
  });
  return element;
}

/** A button for what cannot be taken back: asks first. */
export function danger(label, question, act) {
  const button = h("button", { class: "danger", type: "button" }, label);
  button.addEventListener("click", async () => {
    if (!confirm(question)) return;
    button.disabled = true;
    try {
      await act();
    } catch (error) {
      alert(error.message);
    } finally {
      button.disabled = false;
    }
  });
  return button;
}

/** Arguments typed as JSON: an object, or nothing. Throws what is wrong with it. */
export function parseObject(text) {
  if (!text.trim()) return {};
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`not JSON: ${error.message}`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new Error("must be a JSON object, such as {\"x-max-length\": 1000}");
  }
  return value;
}
