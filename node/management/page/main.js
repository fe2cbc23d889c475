// The frame of the page: login, navigation by the address behind #, and when views are renewed.
//
// A view is {title, element, everyMs, refresh(), leave?()}. While it is shown and the tab is seen,
// `refresh` is called again and again, `everyMs` after its last end, or as often as the user has
// chosen; 0: once. What else is chosen in a view is in the address (`choices.js`).
//
// A view's file is loaded when it is first needed, so that the first view waits for few files; the
// others follow once it is there, so that they need no node any more.

import { forgetReads, get, isLoggedIn, logIn, logOut, watchEnd, watchStale } from "./api.js";
import { forgetAlarms, lookForAlarms } from "./alarms.js";
import { EVERY, RANGE, VHOST, here } from "./choices.js";
import { controls, dress, everyMs } from "./controls.js";
import { h, link, note } from "./dom.js";
import { field, form, input } from "./forms.js";
import { callerName, may, setCaller } from "./session.js";

// What an address behind # shows: the file with the view, and the view's name in it.
const ROUTES = [
  [/^\/?$/, "overview", "overview"],
  [/^\/connections$/, "connections", "connections"],
  [/^\/connections\/([^/]+)$/, "connections", "connection"],
  [/^\/channels$/, "channels", "channels"],
  [/^\/channels\/([^/]+)$/, "channels", "channel"],
  [/^\/exchanges$/, "exchanges", "exchanges"],
  [/^\/exchanges\/([^/]+)\/([^/]+)$/, "exchanges", "exchange"],
  [/^\/queues$/, "queues", "queues"],
  [/^\/queues\/([^/]+)\/([^/]+)$/, "queue", "queue"],
  [/^\/queues\/([^/]+)\/([^/]+)\/letters$/, "letters", "letters"],
  [/^\/addresses$/, "addresses", "addresses"],
  [/^\/streams$/, "streams", "streams"],
  [/^\/links$/, "links", "links"],
  [/^\/cluster$/, "cluster", "cluster"],
  [/^\/nodes\/([^/]+)$/, "node", "node"],
  [/^\/users\/([^/]+)$/, "owners", "user"],
  [/^\/vhosts\/([^/]+)$/, "owners", "vhost"],
  [/^\/flow$/, "flow", "flow"],
  [/^\/events$/, "events", "events"],
  [/^\/api$/, "reference", "reference"],
  [/^\/admin$/, "admin", "admin"],
  [/^\/admin\/([a-z]+)$/, "admin", "admin"],
];
const LINKS = [
  ["Overview", "#/"],
  ["Connections", "#/connections"],
  ["Channels", "#/channels"],
  ["Exchanges", "#/exchanges"],
  ["Queues", "#/queues"],
  ["Addresses", "#/addresses", may.monitor],
  ["Stream clients", "#/streams"],
  ["Links", "#/links", may.monitor],
  ["Cluster", "#/cluster", may.monitor],
  ["Flow", "#/flow", may.monitor],
  ["Events", "#/events", may.monitor],
  ["API", "#/api"],
  ["Admin", "#/admin", may.setPolicies],
];
const AGAIN_MS = 3000; // after a fault, where a view is else not renewed
const OTHERS_MS = 500; // after the first view, until the files of the others are loaded
const ALARMS_MS = 5000; // between two looks at what is wrong with nodes
const PART_OF = { nodes: "cluster", users: "admin", vhosts: "admin" };

const content = document.getElementById("content");
const nav = document.getElementById("nav");
const session = document.getElementById("session");
const banner = document.getElementById("banner");
const stale = document.getElementById("stale");

let view = null;
let timer = 0;
let alarmTimer = 0;
let renewing = null; // the view whose refresh is under way
let isKnown = false; // who is logged in
let areLoaded = false; // the files of all views, or that has begun
let visits = 0; // addresses that were gone to

async function navigate() {
  clearTimeout(timer);
  leaveView();
  if (!isLoggedIn() || !isKnown) {
    if (!isLoggedIn()) showLogin();
    return;
  }
  const { where } = here();
  const visit = visits;
  for (const kept of [VHOST, EVERY, RANGE]) kept.adopt();
  content.setAttribute("aria-busy", "true"); // until there is something to see
  const made = await viewAt(where);
  if (visit !== visits) return; // another address was gone to meanwhile
  view = made;
  document.title = `${view.title} - Warren`;
  content.replaceChildren(view.element);
  content.focus({ preventScroll: true });
  scrollTo(0, 0);
  frame(where);
  renew(view);
}

function leaveView() {
  visits += 1;
  if (view && view.leave) view.leave();
  view = null;
  forgetReads();
  banner.replaceChildren();
}

/** The route of an address, and what its pattern found; null: there is no such page. */
function routeOf(where) {
  for (const [pattern, file, name] of ROUTES) {
    const found = pattern.exec(where);
    if (!found) continue;
    try {
      return { file, name, parts: found.slice(1).map(decodeURIComponent) };
    } catch (error) {
      if (!(error instanceof URIError)) throw error;
    }
  }
  return null;
}

async function viewAt(where) {
  const route = routeOf(where);
  if (!route) return message("There is no such page");
  const file = await load(route.file).catch((error) => console.error(error));
  return file ? file[route.name](...route.parts) : message("The page is not complete: reload it");
}

const load = (file) => import(`./${file}.js`);

/** Begin to load; `viewAt` says what was wrong, once the view is asked for. */
const loadAhead = (file) => load(file).catch(() => null);

function loadOthers() {
  areLoaded = true;
  for (const [, file] of ROUTES) loadAhead(file);
}

/** A view that says one thing. */
function message(said) {
  const element = h("div", {}, h("h1", {}, said), link("Overview", "#/"));
  return { title: said, element, everyMs: 0, refresh: async () => {} };
}

function frame(where) {
  const part = where.split("/")[1] || "";
  const first = `#/${PART_OF[part] || part}`;
  nav.replaceChildren(
    ...LINKS.filter(([, , isFor]) => !isFor || isFor()).map(([name, href]) =>
      h("a", { href, "aria-current": href === first ? "page" : null }, name),
    ),
  );
  const out = h("button", { type: "button", click: () => leave() }, "Log out");
  session.replaceChildren(controls(), h("span", {}, callerName()), out);
}

async function renew(of) {
  if (renewing === of) return;
  clearTimeout(timer);
  renewing = of;
  let waitMs = everyMs(of);
  try {
    await of.refresh();
    if (of === view) banner.replaceChildren();
  } catch (error) {
    waitMs = waitMs || AGAIN_MS;
    if (of === view) tell(error);
  } finally {
    if (renewing === of) renewing = null;
    if (of === view) content.removeAttribute("aria-busy");
    if (!areLoaded) setTimeout(loadOthers, OTHERS_MS);
  }
  if (of === view && waitMs && !document.hidden) timer = setTimeout(() => renew(of), waitMs);
}

function tell(error) {
  if (error.isLoggedOut) return;
  if (!("status" in error)) reportError(error); // a fault of the page itself
  const isGone = error.status === 404;
  banner.replaceChildren(note(isGone ? "This is not there, or not any more." : error.message));
}

function showLogin(said = "") {
  leaveView();
  content.removeAttribute("aria-busy");
  nav.replaceChildren();
  session.replaceChildren();
  stale.hidden = true;
  forgetAlarms();
  document.title = "Log in - Warren";
  const fields = [
    field("User", input("name", { required: true, autocomplete: "username" })),
    field("Password", input("password", { type: "password", autocomplete: "current-password" })),
  ];
  const enter = async (values) => {
    setCaller(await logIn(values.name, values.password));
    isKnown = true;
    navigate();
    watchAlarms();
  };
  const element = form(fields, "Log in", enter);
  element.className = "";
  const told = said ? note(said, "warn") : null;
  const title = h("h1", {}, "Log in");
  content.replaceChildren(h("section", { class: "card login" }, title, told, element));
  element.querySelector("input").focus();
}

function leave(said = "") {
  logOut();
  setCaller(null);
  isKnown = false;
  clearTimeout(timer);
  showLogin(said);
}

/** Who is logged in since before: asked until there is an answer. */
async function start() {
  if (!isLoggedIn()) {
    showLogin();
    return;
  }
  const route = routeOf(here().where);
  if (route) loadAhead(route.file);
  try {
    setCaller(await get("whoami"));
    isKnown = true;
  } catch (error) {
    tell(error);
    if (!error.isLoggedOut) setTimeout(start, AGAIN_MS);
    return;
  }
  navigate();
  watchAlarms();
}

/** While the page is seen, and someone is logged in. */
async function watchAlarms() {
  clearTimeout(alarmTimer);
  if (isKnown && !document.hidden) await lookForAlarms().catch(() => null); // the view says why
  alarmTimer = setTimeout(watchAlarms, ALARMS_MS);
}

/** `/` goes to the filter of the list, as on many pages. */
function shortcut(event) {
  const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || isTyping || event.ctrlKey || event.altKey || event.metaKey) return;
  const filter = content.querySelector("input[type=search]");
  if (!filter) return;
  event.preventDefault();
  filter.focus();
  filter.select();
}

watchStale((isStale) => {
  stale.hidden = !isStale;
});
watchEnd(() => leave("The session has ended: log in again."));
addEventListener("hashchange", navigate);
addEventListener("keydown", shortcut);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address behind # is that of a view
  content.focus();
});
document.addEventListener("visibilitychange", () => {
  if (!view) return;
  if (document.hidden) clearTimeout(timer);
  else renew(view);
});
dress();
start();
