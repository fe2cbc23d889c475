// Users, vhosts, policies, limits, definitions, feature flags, the cluster's name: each has its own
// address.

import { clusterName } from "./naming.js";
import { definitions } from "./definitions.js";
import { h, link, present } from "./dom.js";
import { features } from "./features.js";
import { limits } from "./limits.js";
import { policies } from "./policies.js";
import { may } from "./session.js";
import { users } from "./users.js";
import { vhosts } from "./vhosts.js";

const PARTS = [
  ["users", "Users", users, may.administer],
  ["vhosts", "Virtual hosts", vhosts, may.administer],
  ["policies", "Policies", policies, may.setPolicies],
  ["limits", "Limits", limits, may.administer],
  ["definitions", "Definitions", definitions, may.administer],
  ["features", "Feature flags", features, may.administer],
  ["cluster", "Cluster name", clusterName, may.administer],
];

/** A part gives {element, refresh()}; forms in it call `refresh` when they change something. */
export function admin(asked = "") {
  const offered = PARTS.filter(([, , , isFor]) => isFor());
  const found = offered.find(([name]) => name === asked) || (asked ? null : offered[0]);
  if (!found) {
    const text = "This needs a user with the tag administrator, or policymaker for policies.";
    const element = h("div", {}, h("h1", {}, "Admin"), h("p", { class: "empty" }, text));
    return { title: "Admin", element, everyMs: 0, refresh: async () => {} };
  }
  const [name, title, make] = found;
  const part = make();
  const element = h("div", {}, h("h1", {}, "Admin"), tabs(offered, name), part.element);
  return { title: `${title} - Admin`, element, everyMs: 10_000, refresh: part.refresh };
}

function tabs(offered, chosen) {
  const links = offered.map(([name, title]) => {
    const element = link(title, `#/admin/${name}`);
    if (name === chosen) element.setAttribute("aria-current", "page");
    return element;
  });
  return h("nav", { class: "tabs", "aria-label": "Admin" }, present(links));
}
