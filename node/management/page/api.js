// Requests to the HTTP API, and who is logged in. The password is kept for this tab alone.

const KEY = "warren.login";
const PATIENCE_MS = 20_000; // for an answer to a question
const CHANGE_PATIENCE_MS = 600_000; // a drain or an import takes its time

let login = sessionStorage.getItem(KEY);
let reading = new AbortController(); // ends what a page asked for when it is left
let onStale = () => {};
let onEnded = () => {};

/** An answer of the API that is no success: `status`, and the broker's reason. */
export class ApiError extends Error {
  constructor(status, reason, isLoggedOut = false) {
    super(reason);
    this.status = status;
    this.isLoggedOut = isLoggedOut; // the name and the password are not, or no more, good
  }
}

export function isLoggedIn() {
  return login !== null;
}

export function logOut() {
  login = null;
  sessionStorage.removeItem(KEY);
}

/** Try a name and a password; the caller as the broker knows it. Throws ApiError. */
export async function logIn(name, password) {
  const bytes = new TextEncoder().encode(`${name}:${password}`);
  const before = login;
  login = btoa(String.fromCharCode(...bytes));
  try {
    const caller = await get("whoami");
    sessionStorage.setItem(KEY, login);
    return caller;
  } catch (error) {
    login = before;
    throw error;
  }
}

/** Answers that a page still waits for are of no use any more. */
export function forgetReads() {
  reading.abort();
  reading = new AbortController();
}

/** `told` is called with each answer: whether it may be out of date. */
export function watchStale(told) {
  onStale = told;
}

/** `told` is called when the login that is kept is not good any more. */
export function watchEnd(told) {
  onEnded = told;
}

/** Path segments, each encoded, with a query. */
export function path(segments, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined);
  const text = new URLSearchParams(given).toString();
  return segments.map(encodeURIComponent).join("/") + (text ? `?${text}` : "");
}

export const get = (where) => request("GET", where);
export const put = (where, body) => request("PUT", where, body);
export const post = (where, body) => request("POST", where, body);
export const remove = (where, { headers, body } = {}) => request("DELETE", where, body, headers);

/** As `get`; `otherwise` where there is no such thing, or it is not for this user. */
export async function maybe(where, otherwise = null) {
  try {
    return await get(where);
  } catch (error) {
    if (error.isLoggedOut || ![401, 403, 404, 405].includes(error.status)) throw error;
    return otherwise;
  }
}

/** A body that goes on and on, such as events. */
export async function open(where, headers, signal) {
  const answer = await send(where, { headers: { ...authority(), ...headers }, signal });
  if (!answer.ok) throw failure(answer, await valueOf(answer).catch(() => null));
  return answer.body;
}

/** Text as it is: numbers that JavaScript cannot hold stay what they were. */
export const getText = (where) => request("GET", where, undefined, {}, true);
export const postText = (where, text) => request("POST", where, text, {}, true);

async function request(method, where, body, more = {}, isText = false) {
  const headers = { ...authority(), Accept: "application/json", ...more };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const isRead = method === "GET";
  const ends = [AbortSignal.timeout(isRead ? PATIENCE_MS : CHANGE_PATIENCE_MS)];
  if (isRead) ends.push(reading.signal);
  const answer = await send(where, {
    method,
    headers,
    body: body === undefined || isText ? body : JSON.stringify(body),
    signal: AbortSignal.any(ends),
  });
  const value = await valueOf(answer, isText);
  if (!answer.ok) throw failure(answer, value);
  onStale(answer.headers.has("Warning"));
  return value;
}

function authority() {
  return { Authorization: `Basic ${login}` };
}

async function send(where, options) {
  try {
    return await fetch(`api/${where}`, { credentials: "omit", cache: "no-store", ...options });
  } catch (error) {
    throw new ApiError(0, unreached(error));
  }
}

function unreached(error) {
  return error.name === "TimeoutError" ? "the node does not answer" : "the node cannot be reached";
}

async function valueOf(answer, isText = false) {
  let text;
  try {
    text = await answer.text();
  } catch (error) {
    throw new ApiError(0, unreached(error));
  }
  if (isText && answer.ok) return text;
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    if (answer.ok) throw new ApiError(answer.status, "the node's answer is no JSON");
    return null;
  }
}

/** A login that is refused comes with a challenge; missing rights come without. */
function failure(answer, value) {
  const reason = value && (value.reason || value.error);
  const text = Array.isArray(reason) ? reason.join(": ") : reason;
  const isLoggedOut = answer.status === 401 && answer.headers.has("WWW-Authenticate");
  if (isLoggedOut && login !== null && sessionStorage.getItem(KEY) === login) onEnded();
  return new ApiError(answer.status, text || `${answer.status} ${answer.statusText}`, isLoggedOut);
}
