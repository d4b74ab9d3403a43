/* Live samples: one stream of server-sent events for all components of a tab.

   Must not know what draws them. Invariants: a tab has one stream at most, and none while it is
   hidden or nobody listens; it watches what is shown now, WATCHED_MAX objects at most. */

import { get, url } from "./api.js";
import { useData } from "./data.js";
import { useEffect, useMemo, useState } from "./html.js";
import { MINUTE_S, join, valuesOf } from "./series.js";
import { may, useUser } from "./session.js";

// The broker's limit of `watch`.
const WATCHED_MAX = 16;
const RETRY_MS = 5000;

/** How often the history of a range has something new, in milliseconds. */
const EVERY_MS = { minute: 0, hour: 10_000, day: 300_000 };

const listeners = new Map();
let latest = null;
let source = null;
let watched = "";
// What the user may not watch: a page of it has other figures, which are not to be missed.
let refused = null;
let timer = null;
/** What `useLost` returns while the broker answers, and lets no more pages listen. */
export const CROWDED = "crowded";

// Since when nothing comes although somebody listens, by this machine's clock; null: it comes.
let lost = null;
const watchers = new Set();

function setLost(found) {
  // Since when it is stays what it was.
  if (typeof found !== typeof lost) {
    lost = found;
    for (const watcher of [...watchers]) {
      watcher(lost);
    }
  }
}

/** How the broker names an object in `watch`; shape: "queue:%2F:orders", "vhost:%2F". */
function keyOf(parts) {
  return parts.map(encodeURIComponent).join(":");
}

/** The parts of that. What is in no virtual host has none. */
function partsOf(kind, vhost, name) {
  return [kind, vhost, name].filter((each) => each !== undefined && each !== null);
}

function wanted() {
  const keys = new Set();
  for (const watch of listeners.values()) {
    for (const one of watch) {
      keys.add(keyOf(one));
    }
  }
  return [...keys].sort().slice(0, WATCHED_MAX);
}

function close() {
  clearTimeout(timer);
  timer = null;
  source?.close();
  source = null;
}

/** Open, close or change the stream as far as what is wanted differs from what there is. */
function follow() {
  if (listeners.size === 0 || document.hidden) {
    if (listeners.size === 0) {
      latest = null; // who listens next may be somebody else
      refused = null;
      setLost(null);
    }
    close();
    return;
  }
  const keys = wanted();
  const all = keys.map((key) => `watch=${encodeURIComponent(key)}`).join("&");
  const query = all === refused ? "" : all;
  if (source !== null && query === watched) {
    return;
  }
  close();
  watched = query;
  source = new EventSource(query ? `${url(["live"])}?${query}` : url(["live"]));
  source.addEventListener("sample", (event) => {
    latest = JSON.parse(event.data);
    setLost(null);
    for (const listener of [...listeners.keys()]) {
      listener(latest);
    }
  });
  source.addEventListener("error", () => {
    // The browser tries again by itself unless the broker has refused.
    if (source?.readyState === EventSource.CLOSED) {
      close();
      ended(query);
    } else {
      setLost(Date.now());
    }
  });
}

/** After a refusal: watch nothing if that was why, or else try again later. */
async function ended(query) {
  timer = setTimeout(follow, RETRY_MS);
  try {
    // If the session has ended, this shows the login form.
    await get(["whoami"]);
    if (query) {
      refused = query;
      follow();
    } else {
      setLost(CROWDED);
    }
  } catch {
    // The broker is away, or nobody is logged in.
    setLost(Date.now());
  }
}

let asked = false;

/** `follow`, once for all components that come and go in the same turn. */
function followSoon() {
  if (!asked) {
    asked = true;
    setTimeout(() => {
      asked = false;
      follow();
    }, 0);
  }
}

document.addEventListener("visibilitychange", followSoon);

/**
 * Return the newest sample, null before the first.
 *
 * @param {string[][]} [watch] objects: [["queue", vhost, name], ["connection", name], …].
 * @returns {{at_ms: number, overview: object, objects: object}|null}
 */
export function useLive(watch = []) {
  const [sample, setSample] = useState(latest);
  const question = JSON.stringify(watch);
  useEffect(() => {
    const listener = (found) => setSample(found);
    listeners.set(listener, JSON.parse(question));
    followSoon();
    return () => {
      listeners.delete(listener);
      followSoon();
    };
  }, [question]);
  return sample;
}

/**
 * Return since when the broker says nothing more, in milliseconds since 1970; CROWDED; or null, if
 * it does say something.
 */
export function useLost() {
  const [found, setFound] = useState(lost);
  useEffect(() => {
    watchers.add(setFound);
    setFound(lost);
    return () => watchers.delete(setFound);
  }, []);
  return found;
}

/** Return an object's part of a sample, null if there is none. */
export function ofObject(sample, kind, vhost, name) {
  return sample?.objects?.[keyOf(partsOf(kind, vhost, name))] ?? null;
}

/**
 * Return the history of the broker, or of an object, with what came since.
 *
 * @param {{kind: string, vhost?: string, name?: string}} of {kind: "overview"}, or an object; a
 *   connection, a channel and a virtual host have no `vhost`.
 * @param {"minute"|"hour"|"day"} range
 * @returns {{times: number[], series: Object<string, (number|null)[]>, loading: boolean,
 *   error: Error|null}} times in seconds since 1970; rates by the second, levels as they are.
 */
export function useSeries(of, range) {
  const whole = of.kind === "overview";
  const parts = partsOf(of.kind, of.vhost, of.name);
  // Who does not monitor has no history of the whole broker, and begins with the first sample.
  const monitors = may(useUser(), "monitoring");
  const path = whole ? (monitors ? ["samples"] : null) : ["samples", ...parts];
  const { data, error, loading } = useData(path, { range }, { every: EVERY_MS[range] });
  const sample = useLive(whole ? [] : [parts]);
  const [tail, setTail] = useState([]);
  const part = whole ? sample?.overview : ofObject(sample, of.kind, of.vhost, of.name);
  const key = JSON.stringify([path, range]);

  useEffect(() => setTail([]), [key]);
  useEffect(() => {
    const values = valuesOf(part);
    if (range === "minute" && values !== null) {
      setTail((before) => {
        const from = sample.at_ms - MINUTE_S * 1000;
        const kept = before.filter((each) => each.at_ms >= from && each.at_ms < sample.at_ms);
        return [...kept, { at_ms: sample.at_ms, values }];
      });
    }
  }, [sample?.at_ms, range, key]);

  return useMemo(() => {
    const joined = join(data, range === "minute" ? tail : []);
    return { ...joined, loading, error };
  }, [data, tail, range, loading, error]);
}
