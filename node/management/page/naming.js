// The name of the cluster.

import { get, put } from "./api.js";
import { card, h } from "./dom.js";
import { field, form, input } from "./forms.js";

export function clusterName() {
  const name = input("name", { required: true });
  let isTold = false;
  const act = async (values) => {
    await put("cluster-name", { name: values.name });
    return "saved";
  };
  const refresh = async () => {
    const found = await get("cluster-name");
    if (!isTold) name.value = found.name; // what was typed since is not overwritten
    isTold = true;
  };
  const inside = card("", form([field("Name", name)], "Save", act));
  const element = h("div", {}, h("h2", {}, "Cluster name"), inside);
  return { element, refresh };
}
