// A view of one thing, which is looked at again and again.

import { get, path } from "./api.js";
import { samples } from "./chart.js";
import { h } from "./dom.js";
import { patch } from "./patch.js";

/**
 * `where`: its path in the API; `partsOf`: what is shown of it, or a promise of that. The first
 * look asks for the samples of charts, and `partsOf` is called with true.
 */
export function watched(title, where, everyMs, partsOf) {
  const element = h("div");
  let isFirst = true;
  const refresh = async () => {
    const row = await get(path(where, isFirst ? samples() : {}));
    patch(element, ...(await partsOf(row, isFirst)));
    isFirst = false;
  };
  return { title, element, everyMs, refresh };
}
