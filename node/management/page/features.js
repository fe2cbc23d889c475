// Feature flags, as tools of RabbitMQ ask for them: all are on.

import { get } from "./api.js";
import { h, state } from "./dom.js";
import { patch } from "./patch.js";
import { table } from "./table.js";

const COLUMNS = [
  { title: "Name", value: (row) => row.name },
  { title: "State", value: (row) => state("running", row.state) },
  { title: "Description", wide: true, value: (row) => row.desc },
];

export function features() {
  const place = h("div");
  const text = "All features are always on. Tools that look for RabbitMQ's names find them here.";
  const about = h("p", { class: "empty" }, text);
  const element = h("div", {}, h("h2", {}, "Feature flags"), about, place);
  const refresh = async () => {
    patch(place, table("feature flags", COLUMNS, await get("feature-flags"), (row) => row.name));
  };
  return { element, refresh };
}
