/* The route: what the part of the address behind # says, in RabbitMQ's form.

   `#/queues/%2F/orders?range=hour` is parts ["queues", "/", "orders"] and query {range: "hour"}.
   Must not know which pages there are. Invariant: each address of a page is made by `href`, so no
   name from the broker becomes an address of another kind. */

import { useEffect, useState } from "./html.js";

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function read() {
  const text = location.hash.replace(/^#\/?/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  const query = mark < 0 ? "" : text.slice(mark + 1);
  return {
    parts: path.split("/").filter(Boolean).map(decoded),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

let current = read();
const listeners = new Set();

function changed() {
  current = read();
  for (const listener of [...listeners]) {
    listener(current);
  }
}

addEventListener("hashchange", changed);

/** Return the route as of now; for what is no component. */
export function route() {
  return current;
}

/** Return {parts, query}; the component is drawn again when it changes. */
export function useRoute() {
  const [found, set] = useState(current);
  useEffect(() => {
    listeners.add(set);
    set(current);
    return () => listeners.delete(set);
  }, []);
  return found;
}

/**
 * Return the address of a page.
 *
 * @param {string[]} parts raw names.
 * @param {object} [query] values; null and undefined are left out.
 */
export function href(parts, query) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== null && value !== undefined && value !== "") {
      given.append(name, value);
    }
  }
  const text = given.toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Go to a page; with `replace` without a step in the history. */
export function go(parts, query, { replace = false } = {}) {
  const address = href(parts, query);
  if (address === location.hash) {
    return;
  }
  if (replace) {
    history.replaceState(null, "", address);
    changed();
  } else {
    location.hash = address;
  }
}

/** Change some values of the query, null removes one, and leave the others. */
export function setQuery(values, { replace = false } = {}) {
  const { parts, query } = read();
  go(parts, { ...query, ...values }, { replace });
}

const DEFAULT_EXCHANGE = "amq.default";

/** What an address has in place of the default exchange's name, which is empty. */
export function exchangeSegment(name) {
  return name === "" ? DEFAULT_EXCHANGE : name;
}
