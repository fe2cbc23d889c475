// All definitions as one file: taken out, and read in.

import { getText, path, postText } from "./api.js";
import { card, h, tag } from "./dom.js";
import { field, form, input } from "./forms.js";

const NAME = "warren-definitions.json";

export function definitions() {
  const out = "Users, vhosts, rights, policies, exchanges, queues and bindings as one JSON file.";
  const back = "What is there already is kept; RabbitMQ's own files can be read.";
  const element = h(
    "div",
    {},
    h("h2", {}, "Definitions"),
    card("Export", h("p", {}, out), exporter()),
    card("Import", h("p", {}, back), importer()),
  );
  return { element, refresh: async () => {} };
}

function whichVhost() {
  return field("Of one vhost", input("vhost", { placeholder: "empty: of all" }));
}

function where(vhost) {
  return vhost ? path(["definitions", vhost]) : "definitions";
}

function exporter() {
  return form([whichVhost()], "Download", async ({ vhost }) => {
    const text = await getText(where(vhost));
    const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    h("a", { href: address, download: NAME }).click();
    URL.revokeObjectURL(address);
  });
}

function importer() {
  const file = input("file", { type: "file", accept: "application/json,.json", required: true });
  return form([field("File", file), whichVhost()], "Import", async ({ vhost }) => {
    const [chosen] = file.files;
    const text = await chosen.text();
    try {
      JSON.parse(text);
    } catch (error) {
      throw new Error(`${chosen.name} is not JSON: ${error.message}`);
    }
    if (!confirm(`Import ${chosen.name}?`)) return null;
    const answer = await postText(where(vhost), text);
    const warnings = answer?.warnings ?? [];
    if (!warnings.length) return tag(`${chosen.name} was imported`, "good");
    const lines = warnings.map((each) => h("li", {}, each));
    const head = tag(`${chosen.name} was imported with warnings`, "bad");
    return h("div", {}, head, h("ul", {}, lines));
  });
}
