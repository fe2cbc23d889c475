// Forms and buttons that change something: they say what went wrong, and forbid a second click.

import { h, listen } from "./dom.js";

/** A field of a form with its label. */
export function field(label, input) {
  return h("label", {}, label, h("br"), input);
}

export function input(name, more = {}) {
  return h("input", { name, autocomplete: "off", spellcheck: "false", ...more });
}

export function check(name, label, checked = false) {
  return h("label", {}, h("input", { type: "checkbox", name, checked }), ` ${label}`);
}

export function area(name, label, rows = 2) {
  return h("label", { class: "all" }, label, h("textarea", { name, rows, spellcheck: "false" }));
}

/** `values` are texts, or pairs of a value and what is shown for it. */
export function choice(name, values, chosen) {
  const options = values.map((each) => {
    const [value, shown] = Array.isArray(each) ? each : [each, each || "-"];
    return h("option", { value, selected: value === chosen }, shown);
  });
  return h("select", { name }, options);
}

/** A form that calls `act` with its values. What `act` gives back is shown below it. */
export function form(fields, label, act, kind = "main") {
  const told = h("div", { class: "all", role: "alert" });
  const button = h("button", { class: kind, type: "submit" }, label);
  const kept = { class: "form", "data-keep": true, "data-key": label };
  const element = h("form", kept, fields, button, told);
  listen(element, "submit", async (event) => {
    event.preventDefault();
    if (button.disabled) return;
    button.disabled = true;
    told.replaceChildren();
    try {
      const answer = await act(Object.fromEntries(new FormData(element)), element);
      if (answer) told.replaceChildren(answer);
    } catch (error) {
      told.replaceChildren(h("span", { class: "note bad" }, error.message));
    } finally {
      button.disabled = false;
    }
  });
  return element;
}

/** A button that acts at once, and tells beside it what went wrong. `key` says what it acts on. */
export function button(label, act, kind = "", key = label) {
  const told = h("span", { role: "alert" });
  const pressed = async () => {
    if (it.disabled) return;
    it.disabled = true;
    told.replaceChildren();
    try {
      const answer = await act();
      if (answer) told.replaceChildren(answer);
    } catch (error) {
      told.replaceChildren(h("span", { class: "note bad" }, error.message));
    } finally {
      it.disabled = false;
    }
  };
  const it = h("button", { class: kind, type: "button", click: pressed }, label);
  return h("span", { class: "act", "data-keep": true, "data-key": key }, it, told);
}

/** A button for what cannot be taken back: asks first. */
export function danger(label, question, act) {
  return button(label, async () => (confirm(question) ? act() : null), "danger", question);
}

/** Arguments typed as JSON: an object, or nothing. Throws what is wrong with it. */
export function parseObject(text) {
  if (!text || !text.trim()) return {};
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`not JSON: ${error.message}`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new Error('must be a JSON object, such as {"x-max-length": 1000}');
  }
  return value;
}

/** A whole number that was typed, or undefined where nothing was. */
export function number(text, what = "this") {
  if (text === undefined || text.trim() === "") return undefined;
  const value = Number(text);
  if (!Number.isInteger(value)) throw new Error(`${what} must be a whole number`);
  return value;
}
