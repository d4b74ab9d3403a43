/* The virtual host that lists are about: one, or all.

   It stands in the address (`?vhost=…`), so that an address shows the same to everybody. A tab
   remembers the last choice for addresses that say nothing. Must not know pages. */

import { setQuery, useRoute } from "./route.js";

const KEY = "leporid.vhost";

/** Return the name of the chosen virtual host, null for all of them. */
export function useVhost() {
  const { query } = useRoute();
  if (query.vhost !== undefined) {
    remember(query.vhost);
    return query.vhost;
  }
  return sessionStorage.getItem(KEY);
}

function remember(value) {
  if (value === null) {
    sessionStorage.removeItem(KEY);
  } else {
    sessionStorage.setItem(KEY, value);
  }
}

/** Choose one; null for all. */
export function chooseVhost(name) {
  remember(name);
  setQuery({ vhost: name, page: null });
}
