// The frame of the page: login, navigation by the address behind #, and when views are renewed.

import { ApiError, get, isLoggedIn, logIn, logOut } from "./api.js";
import { admin } from "./admin.js";
import { connection, connections } from "./connections.js";
import { field, form, h, input } from "./dom.js";
import { exchange, exchanges } from "./exchanges.js";
import { overview } from "./overview.js";
import { queue, queues } from "./queues.js";

const ROUTES = [
  [/^\/?$/, "Overview", overview],
  [/^\/connections$/, "Connections", connections],
  [/^\/connections\/([^/]+)$/, null, connection],
  [/^\/exchanges$/, "Exchanges", exchanges],
  [/^\/exchanges\/([^/]+)\/([^/]+)$/, null, exchange],
  [/^\/queues$/, "Queues", queues],
  [/^\/queues\/([^/]+)\/([^/]+)$/, null, queue],
  [/^\/admin$/, "Admin", admin],
];
const LINKS = { Overview: "#/", Connections: "#/connections", Exchanges: "#/exchanges", Queues: "#/queues", Admin: "#/admin" };

const content = document.getElementById("content");
const nav = document.getElementById("nav");
const session = document.getElementById("session");
const banner = document.getElementById("banner");

let view = null;
let timer = 0;
let caller = null;

function navigate() {
  clearTimeout(timer);
  if (!isLoggedIn()) {
    showLogin();
    return;
  }
  const where = location.hash.slice(1) || "/";
  const found = ROUTES.find(([pattern]) => pattern.test(where));
  if (!found) {
    content.replaceChildren(h("h1", {}, "There is no such page"), h("p", {}, h("a", { href: "#/" }, "Overview")));
    return;
  }
  const [pattern, , make] = found;
  view = make(...pattern.exec(where).slice(1).map(decodeURIComponent));
  document.title = `${view.title} - Warren`;
  content.replaceChildren(view.element);
  content.focus({ preventScroll: true });
  frame(where);
  renew(view);
}

function frame(where) {
  const first = `#/${where.split("/")[1] || ""}`;
  nav.replaceChildren(
    ...Object.entries(LINKS).map(([name, href]) =>
      h("a", { href, "aria-current": href === first ? "page" : null }, name),
    ),
  );
  const who = caller ? caller.name : "";
  session.replaceChildren(who, h("button", { type: "button", click: leave }, "Log out"));
}

async function renew(of) {
  clearTimeout(timer);
  try {
    await of.refresh();
    if (of === view) banner.replaceChildren();
  } catch (error) {
    if (of !== view) return;
    if (error instanceof ApiError && error.status === 401) {
      leave();
      return;
    }
    banner.replaceChildren(h("p", { class: "note bad" }, error.message));
  }
  if (of === view && of.everyMs && !document.hidden) timer = setTimeout(() => renew(of), of.everyMs);
}

function showLogin() {
  view = null;
  nav.replaceChildren();
  session.replaceChildren();
  document.title = "Log in - Warren";
  const fields = [
    field("User", input("name", { required: true, autocomplete: "username", autofocus: true })),
    field("Password", input("password", { type: "password", autocomplete: "current-password" })),
  ];
  const enter = async (values) => {
    caller = await logIn(values.name, values.password);
    navigate();
  };
  const element = form(fields, "Log in", enter);
  element.className = "";
  content.replaceChildren(h("section", { class: "card login" }, h("h1", {}, "Log in"), element));
  element.querySelector("input").focus();
}

function leave() {
  logOut();
  caller = null;
  banner.replaceChildren();
  navigate();
}

async function start() {
  if (isLoggedIn()) caller = await get("whoami").catch(() => null);
  navigate();
}

addEventListener("hashchange", navigate);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && view) renew(view);
});
start();
