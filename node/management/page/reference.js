// The requests of the HTTP API, as its OpenAPI document has them.

import { get } from "./api.js";
import { fold, h, json } from "./dom.js";
import { input } from "./forms.js";

export function reference() {
  const list = h("div");
  let api = null;
  const filter = input("filter", {
    type: "search",
    "aria-label": "Filter requests",
    placeholder: "Filter by path or text",
    input: () => show(),
  });
  const show = () => list.replaceChildren(...parts(api, filter.value.toLowerCase()));
  const refresh = async () => {
    api = await get("openapi.json");
    show();
  };
  const element = h("div", {}, h("h1", {}, "HTTP API"), h("p", {}, filter), list);
  return { title: "HTTP API", element, everyMs: 0, refresh };
}

/** A section for each tag that has a request with these words. */
function parts(api, words) {
  return api.tags.map(({ name }) => {
    const found = operations(api, name).filter((each) => has(titleOf(each), words));
    if (found.length === 0) return "";
    const title = name.replaceAll("_", " ");
    return h("section", {}, h("h2", {}, title), found.map((each) => operation(api, each)));
  });
}

const has = (text, words) => text.toLowerCase().includes(words);

function titleOf({ method, path, about }) {
  return `${method} ${path}: ${about.summary}`;
}

function operations(api, tag) {
  return Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, about]) => about.tags?.includes(tag))
      .map(([method, about]) => ({ method: method.toUpperCase(), path, about })),
  );
}

function operation(api, each) {
  const about = each.about;
  const body = about.requestBody?.content["application/json"]?.schema;
  return fold(
    titleOf(each),
    h("p", {}, about.description),
    parameters(about.parameters || []),
    body ? [h("h3", {}, "Body"), json(resolved(api, body))] : null,
    Object.entries(about.responses || {}).map(([status, answer]) => response(api, status, answer)),
  );
}

function parameters(given) {
  if (given.length === 0) return null;
  const row = (each) => [h("dt", {}, `${each.name} (${each.in})`), h("dd", {}, each.description)];
  return h("dl", { class: "facts" }, given.map(row));
}

function response(api, status, answer) {
  const schema = answer.content?.["application/json"]?.schema;
  const shown = schema ? json(resolved(api, schema)) : null;
  return [h("h3", {}, `${status} ${answer.description || ""}`), shown];
}

/** The schema with what it refers to in its place, but for what contains itself. */
function resolved(api, schema, above = []) {
  if (Array.isArray(schema)) return schema.map((each) => resolved(api, each, above));
  if (schema === null || typeof schema !== "object") return schema;
  const place = schema.$ref;
  if (place) {
    if (above.includes(place)) return schema;
    const found = place.slice(2).split("/").reduce((at, name) => at[name], api);
    return resolved(api, found, [...above, place]);
  }
  const entries = Object.entries(schema).map(([key, each]) => [key, resolved(api, each, above)]);
  return Object.fromEntries(entries);
}
