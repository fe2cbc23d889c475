// A view of one thing, which is looked at again and again.

import { get, path } from "./api.js";
import { h } from "./dom.js";
import { patch } from "./patch.js";

/** `where`: its path in the API; `partsOf`: what is shown of it, or a promise of that. */
export function watched(title, where, everyMs, partsOf) {
  const element = h("div");
  const refresh = async () => patch(element, ...(await partsOf(await get(path(where)))));
  return { title, element, everyMs, refresh };
}
