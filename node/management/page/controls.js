// The choices above every view: which vhost, how often it is renewed, light or dark.

import { maybe } from "./api.js";
import { EVERY, VHOST, showAgain } from "./choices.js";
import { h, listen } from "./dom.js";
import { choice } from "./forms.js";

const TIMES = [
  ["", "Refresh: usual"],
  ["2", "Refresh every 2 s"],
  ["5", "Refresh every 5 s"],
  ["30", "Refresh every 30 s"],
  ["off", "Do not refresh"],
];
const THEMES = [["", "As the system"], ["light", "Light"], ["dark", "Dark"]];
const THEME = "warren.theme";

/** A list without a caption of its own, for the header. */
function menu(name, label, values, value, changed) {
  const select = choice(name, values, value);
  select.setAttribute("aria-label", label);
  listen(select, "change", () => changed(select.value));
  return select;
}

/** The three of them; vhosts are asked for when the list is opened. */
export function controls() {
  const known = new Set(["", VHOST.value]);
  const vhosts = menu("vhost", "Virtual host", named(known), VHOST.value, (value) => {
    VHOST.value = value;
    showAgain();
  });
  const look = async () => {
    const rows = await maybe("vhosts?columns=name", []).catch(() => []);
    const names = rows.map((row) => row.name);
    if (names.every((name) => known.has(name))) return;
    names.forEach((name) => known.add(name));
    vhosts.replaceChildren(...choice("", named(known), VHOST.value).children);
    vhosts.value = VHOST.value; // which of them is selected is not moved with them
  };
  for (const kind of ["focus", "pointerenter"]) listen(vhosts, kind, look);
  look();
  const times = menu("every", "Refresh", TIMES, EVERY.value, (value) => {
    EVERY.value = value;
    showAgain();
  });
  const theme = localStorage.getItem(THEME) || "";
  const colours = menu("theme", "Colours", THEMES, theme, wear);
  return h("div", { class: "controls" }, vhosts, times, colours);
}

function named(names) {
  return [...names].map((name) => [name, name === "" ? "All virtual hosts" : name]);
}

function wear(theme) {
  if (theme) localStorage.setItem(THEME, theme);
  else localStorage.removeItem(THEME);
  dress();
}

/** Light or dark, as chosen before. */
export function dress() {
  document.documentElement.dataset.theme = localStorage.getItem(THEME) || "";
}

/** Milliseconds between two looks of a view, 0: none. */
export function everyMs(view) {
  if (EVERY.value === "off") return 0;
  return view.everyMs && EVERY.value ? 1000 * Number(EVERY.value) : view.everyMs;
}
