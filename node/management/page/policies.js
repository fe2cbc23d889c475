// Policies and operator policies: listed, made and changed by a form that knows their keys.

import { path, put } from "./api.js";
import { fold, h } from "./dom.js";
import { button, choice, field, form, input } from "./forms.js";
import { KEYS, keysFor } from "./policy_keys.js";
import { may } from "./session.js";
import { Listing } from "./table.js";
import { deleter, editable } from "./users.js";

const APPLY_TO = ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"];
const APPLY_TO_OPERATOR = ["queues", "classic_queues", "quorum_queues", "streams"];

export function policies() {
  const parts = [part(false)];
  if (may.administer()) parts.push(part(true));
  const refresh = async () => {
    await Promise.all(parts.map((each) => each.refresh()));
  };
  return { element: h("div", {}, parts.map((each) => each.element)), refresh };
}

function part(isOperator) {
  const title = isOperator ? "Operator policies" : "Policies";
  const where = isOperator ? "operator-policies" : "policies";
  const again = () => listing.refresh();
  const editor = new Editor(where, isOperator, again);
  const folded = fold(`Add or change: ${title}`, editor.element);
  const change = (row) => {
    editor.fill(row);
    folded.open = true;
    folded.querySelector("input").focus();
  };
  const columns = [
    { title: "Vhost", sort: "vhost", value: (row) => row.vhost },
    { title: "Name", sort: "name", wide: true, value: (row) => row.name },
    { title: "Pattern", sort: "pattern", wide: true, value: (row) => row.pattern },
    { title: "Applies to", sort: "apply-to", value: (row) => row["apply-to"] },
    { title: "Priority", sort: "priority", number: true, value: (row) => String(row.priority) },
    { title: "Definition", wide: true, value: said },
    { title: "", value: (row) => [changer(row, change), gone(row, where, again)] },
  ];
  const keyOf = (row) => JSON.stringify(row); // a changed row gets buttons that know the change
  const listing = new Listing(title.toLowerCase(), [where], columns, { keyOf });
  return editable(title, listing, folded);
}

function said(row) {
  const settings = Object.entries(row.definition || {});
  return settings.map(([key, value]) => h("div", {}, `${key}: ${JSON.stringify(value)}`));
}

function changer(row, change) {
  return button("Change", async () => change(row), "", `change ${row.name}`);
}

function gone(row, where, again) {
  return deleter(`Delete policy ${row.name} of ${row.vhost}?`, [where, row.vhost, row.name], again);
}

/** The form. Settings are rows that are added and taken away; each has an input for its kind. */
class Editor {
  constructor(where, isOperator, again) {
    this.isOperator = isOperator;
    this.settings = h("div", { class: "all settings" });
    this.adding = h("select", { "aria-label": "a setting to add", change: () => this.addChosen() });
    this.applies = choice("apply-to", isOperator ? APPLY_TO_OPERATOR : APPLY_TO, "queues");
    this.applies.addEventListener("change", () => this.offer());
    const fields = [
      field("Vhost", input("vhost", { value: "/", required: true })),
      field("Name", input("name", { required: true })),
      field("Pattern", input("pattern", { required: true, placeholder: "^orders-" })),
      field("Applies to", this.applies),
      field("Priority", input("priority", { type: "number", value: "0" })),
      this.settings,
      h("div", { class: "all" }, field("Add a setting", this.adding)),
    ];
    this.element = form(fields, "Save", async (values) => {
      await put(path([where, values.vhost, values.name]), {
        pattern: values.pattern,
        "apply-to": values["apply-to"],
        priority: Number(values.priority),
        definition: this.definition(),
      });
      await again();
      return "saved";
    });
    this.offer();
  }

  offer() {
    const there = new Set(this.rows().map((row) => row.dataset.name));
    const free = keysFor(this.applies.value, this.isOperator).filter((name) => !there.has(name));
    const shown = (name) => `${name}: ${KEYS[name].means}`;
    const options = free.map((name) => h("option", { value: name }, shown(name)));
    this.adding.replaceChildren(h("option", { value: "" }, "choose ..."), ...options);
  }

  rows() {
    return [...this.settings.children];
  }

  addChosen() {
    if (!this.adding.value) return;
    const row = this.add(this.adding.value, undefined);
    this.offer();
    row.querySelector("input, select").focus();
  }

  add(name, value) {
    const known = KEYS[name] || { kind: "json", means: "" };
    const label = known.means ? `${name} (${known.means})` : name;
    const without = () => {
      row.remove();
      this.offer();
      this.adding.focus();
    };
    const taker = h("button", { type: "button", "aria-label": `without ${name}`, click: without });
    taker.append("Remove");
    const row = h("div", { class: "setting" }, field(label, valueInput(known.kind, value)), taker);
    row.dataset.name = name;
    this.settings.append(row);
    return row;
  }

  definition() {
    const found = {};
    for (const row of this.rows()) {
      const { name } = row.dataset;
      const kind = (KEYS[name] || { kind: "json" }).kind;
      found[name] = valueOf(kind, row.querySelector("input, select").value, name);
    }
    return found;
  }

  fill(policy) {
    const { elements } = this.element;
    for (const name of ["vhost", "name", "pattern", "priority", "apply-to"]) {
      elements.namedItem(name).value = String(policy[name]);
    }
    this.settings.replaceChildren();
    for (const [name, value] of Object.entries(policy.definition)) this.add(name, value);
    this.offer();
  }
}

function valueInput(kind, value) {
  if (Array.isArray(kind)) return choice("", kind, value);
  if (kind === "flag") return choice("", ["true", "false"], String(value ?? true));
  const text = kind === "json" && value !== undefined ? JSON.stringify(value) : value;
  const inputmode = { number: "numeric", fraction: "decimal" }[kind] ?? null;
  return input("", { required: true, value: text, inputmode });
}

function valueOf(kind, text, name) {
  if (kind === "text" || Array.isArray(kind)) return text;
  try {
    const value = JSON.parse(text);
    if (kind === "fraction" ? typeof value === "number" : isWhole(kind, value)) return value;
  } catch {
    if (kind === "json") throw new Error(`${name} is not JSON`);
  }
  throw new Error(`${name} must be a ${kind === "fraction" ? "number" : "whole number"}`);
}

function isWhole(kind, value) {
  return kind !== "number" || Number.isInteger(value);
}
