// Makes an element look like a new one and changes only what differs: the focus, what is selected,
// what is scrolled and what was opened or typed stay as they are while figures are renewed.

import { present } from "./dom.js";

/** The children of `parent` become these. Those with `data-key` are found again by it. If the
 * focused element is gone, its table gets the focus. */
export function patch(parent, ...fresh) {
  const active = parent.contains(document.activeElement) ? document.activeElement : null;
  const region = active ? active.closest("[tabindex]") : null;
  children(parent, present(fresh));
  if (active && !active.isConnected && region && region.isConnected) region.focus();
}

function children(parent, fresh) {
  const byKey = new Map();
  for (const old of parent.children) {
    if (keyOf(old)) byKey.set(keyOf(old), old);
  }
  let next = parent.firstChild;
  for (const item of fresh) {
    const wanted = typeof item === "string" ? document.createTextNode(item) : item;
    const kept = keptOf(byKey, next, wanted);
    if (kept === null) {
      parent.insertBefore(wanted, next);
      continue;
    }
    if (kept === next) next = next.nextSibling;
    else parent.insertBefore(kept, next);
    renew(kept, wanted);
  }
  while (next !== null) {
    const following = next.nextSibling;
    next.remove();
    next = following;
  }
}

/** The old node that becomes `wanted`; null: none of them. */
function keptOf(byKey, next, wanted) {
  const key = keyOf(wanted);
  if (key) {
    const found = byKey.get(key);
    byKey.delete(key);
    return found !== undefined && found.nodeName === wanted.nodeName ? found : null;
  }
  if (next === null || keyOf(next) || next.nodeName !== wanted.nodeName) return null;
  return next;
}

function renew(old, wanted) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== wanted.data) old.data = wanted.data;
    return;
  }
  if (old.dataset.keep !== undefined) return;
  attributes(old, wanted);
  if (wanted.listeners) adopt(old, wanted.listeners);
  children(old, [...wanted.childNodes]);
}

function attributes(old, wanted) {
  for (const { name } of [...old.attributes]) {
    if (!wanted.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (old.getAttribute(name) === value) continue;
    // The attribute itself is forbidden by the content policy.
    if (name === "style") old.style.cssText = wanted.style.cssText;
    else old.setAttribute(name, value);
  }
}

function adopt(old, listeners) {
  if (old.listeners) {
    Object.assign(old.listeners, listeners);
    return;
  }
  old.listeners = listeners;
  for (const kind of Object.keys(listeners)) {
    old.addEventListener(kind, (event) => old.listeners[event.type]?.(event));
  }
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
}
