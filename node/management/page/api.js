// Requests to the HTTP API, and who is logged in. The password is kept for this tab alone.

const KEY = "warren.login";

let login = sessionStorage.getItem(KEY);

/** An answer of the API that is no success: `status`, and the broker's reason. */
export class ApiError extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
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

/** Path segments, each encoded, with a query. */
export function path(segments, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined);
  const text = new URLSearchParams(given).toString();
  return segments.map(encodeURIComponent).join("/") + (text ? `?${text}` : "");
}

export const get = (where) => request("GET", where);
export const put = (where, body) => request("PUT", where, body);
export const post = (where, body) => request("POST", where, body);
export const remove = (where, headers) => request("DELETE", where, undefined, headers);

async function request(method, where, body, more = {}) {
  const headers = { Authorization: `Basic ${login}`, Accept: "application/json", ...more };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(`api/${where}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit",
      cache: "no-store",
    });
  } catch {
    throw new ApiError(0, "the node cannot be reached");
  }
  const text = await answer.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    if (answer.ok) throw new ApiError(answer.status, "the node's answer is no JSON");
  }
  if (!answer.ok) {
    const reason = value && (value.reason || value.error);
    throw new ApiError(answer.status, reason || `${answer.status} ${answer.statusText}`);
  }
  return value;
}
