/* Requests to the management API: the only file that calls fetch.

   Must not know pages, nor what an answer means. Invariants: each segment of a path is encoded
   here, and nowhere else; each request carries X-Leporid-Page, which writes need and which keeps
   the browser from asking for a password itself. */

import { compareClocks } from "./clock.js";

// The page may stand below a path that a proxy has in front of the broker.
const ROOT = location.pathname.replace(/[^/]*$/, "");

/** Where the broker is, as programs elsewhere name it; without a slash at its end. */
export const BROKER = `${location.origin}${ROOT}`.replace(/\/$/, "");

/** What the broker, or the network, has refused. */
export class ApiError extends Error {
  /**
   * @param {number} status of HTTP; 0 if there was no answer.
   * @param {object} answer the JSON of the answer: error, reason, and more facts.
   */
  constructor(status, answer) {
    const reason = answer.reason ?? answer.error ?? `HTTP ${status}`;
    const text = typeof reason === "string" ? reason : JSON.stringify(reason);
    super(text);
    this.status = status;
    this.error = answer.error ?? "";
    this.reason = text;
    this.facts = answer;
  }
}

let unauthorized = () => {};

/** Have a function called when the broker says that nobody is logged in. */
export function onUnauthorized(call) {
  unauthorized = call;
}

// Browsers take these out of an address, encoded or not, so another object would be meant.
const DOTS = new Set([".", ".."]);

/**
 * Return the address of a route.
 *
 * @param {string[]} path raw segments, such as ["queues", "/", "orders"].
 * @param {object} [query] values; null and undefined are left out, arrays are repeated.
 */
export function url(path, query) {
  for (const segment of path) {
    if (DOTS.has(segment)) {
      const reason = `A browser cannot ask for an object named "${segment}". Use the command line.`;
      throw new ApiError(0, { error: "unaddressable", reason });
    }
  }
  const found = `${ROOT}api/${path.map(encodeURIComponent).join("/")}`;
  const text = queryText(query);
  return text ? `${found}?${text}` : found;
}

/** Return a query string without its question mark. */
export function queryText(query) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined) {
        given.append(name, one);
      }
    }
  }
  return given.toString();
}

async function send(method, path, { query, body, signal, headers } = {}) {
  const address = url(path, query);
  const init = {
    method,
    signal,
    credentials: "same-origin",
    cache: "no-store",
    headers: { "X-Leporid-Page": "1", Accept: "application/json", ...headers },
  };
  if (body instanceof Blob) {
    init.body = body;
  } else if (body !== undefined && body !== null) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(address, init);
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    throw new ApiError(0, { error: "unreachable", reason: "The broker does not answer." });
  }
  compareClocks(answer.headers.get("date"));
  const text = await answer.text();
  if (answer.ok) {
    return text ? JSON.parse(text) : null;
  }
  const refusal = new ApiError(answer.status, parsed(text));
  // A right that is missing is a 401 as well, in RabbitMQ's words; the login is good then.
  if (answer.status === 401 && refusal.error !== "not_authorised" && path[0] !== "session") {
    unauthorized();
  }
  throw refusal;
}

function parsed(text) {
  try {
    const found = JSON.parse(text);
    return found !== null && typeof found === "object" ? found : { reason: text };
  } catch {
    return { reason: text.slice(0, 500) || undefined };
  }
}

/** GET; returns the parsed answer. Throws ApiError. */
export function get(path, query, options) {
  return send("GET", path, { query, ...options });
}

/** POST a JSON body, or a Blob as it is; returns the answer, null without one. Throws ApiError. */
export function post(path, body, query) {
  return send("POST", path, { body, query });
}

/** PUT a JSON body, or a Blob as it is; returns the answer, null without one. Throws ApiError. */
export function put(path, body, query) {
  return send("PUT", path, { body, query });
}

/** DELETE; returns the parsed answer, or null without one. Throws ApiError. */
export function remove(path, body, query, headers) {
  return send("DELETE", path, { body, query, headers });
}
