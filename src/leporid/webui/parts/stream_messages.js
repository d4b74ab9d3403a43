/* The messages of one partition of a stream: from an offset, a time, or the end on; with a filter;
   page by page, or live. Must not know what else the page shows. */

import { brokerNow } from "../core/clock.js";
import { html, useEffect, useRef, useState } from "../core/html.js";
import { get } from "../core/api.js";
import { setQuery } from "../core/route.js";
import { count } from "../core/format.js";
import { Button } from "./button.js";
import { Empty } from "./empty.js";
import { Notice } from "./notice.js";
import { MessageRows } from "./message_rows.js";
import { FilterError } from "./filter_error.js";

const PAGE = 50;
const TAIL_KEPT = 200;
const TRUNCATE = 2000;
const WAIT_MS = 20000;
const RETRY_MS = 2000;
const STOPPED_MS = 1000;
const PRESETS = [["5 min ago", 3e5], ["1 h ago", 36e5], ["1 day ago", 864e5]];

/** @param {{vhost: string, name: string, info: object, partition: number, query: object}} props */
export function StreamMessages({ vhost, name, info, partition, query }) {
  const path = ["streams", vhost, name];
  const live = query.live === "1";
  const filters = { filter: query.filter || undefined, tags: query.tags || undefined };
  const key = JSON.stringify([path, partition, query.from, filters, live]);
  return html`
    <${Seek} path=${path} partition=${partition} query=${query} info=${info} live=${live} />
    ${live
      ? html`<${Tail} key=${key} path=${path} partition=${partition} filters=${filters}
          end=${info.partitions[partition].end} />`
      : html`<${Pages} key=${key} path=${path} partition=${partition} filters=${filters}
          from=${query.from ?? "first"} />`}`;
}

function Seek({ path, partition, query, info, live }) {
  const [offset, setOffset] = useState("");
  const [time, setTime] = useState("");
  const [filter, setFilter] = useState(query.filter ?? "");
  const [tags, setTags] = useState(query.tags ?? "");
  const [trouble, setTrouble] = useState(null);
  const { first, end } = info.partitions[partition];
  const from = (value) => setQuery({ from: value, live: null });
  const seekTime = async (ms) => {
    setTrouble(null);
    try {
      const found = await get([...path, "offset-for"], { timestamp_ms: Math.max(0, ms) });
      from(String(found.partitions[partition].offset));
    } catch (error) {
      setTrouble(error.message);
    }
  };
  const submit = (event) => {
    event.preventDefault();
    if (offset.trim()) from(offset.trim());
  };
  const submitTime = (event) => {
    event.preventDefault();
    if (time) seekTime(new Date(time).getTime());
  };
  const submitFilter = (event) => {
    event.preventDefault();
    setQuery({ filter: filter.trim() || null, tags: tags.trim() || null });
  };
  return html`
    <div class="seek">
      <div class="seek-group" role="group" aria-label="Where to begin">
        <${Button} onClick=${() => from(null)}>First<//>
        <${Button} onClick=${() => from(String(Math.max(first, end - PAGE)))}>Newest<//>
        <${Button} kind=${live ? "main" : "plain"} pressed=${live}
          onClick=${() => setQuery({ live: live ? null : "1", from: null })}>
          ${live ? "Live" : "Live tail"}<//>
      </div>
      <form class="seek-group" onSubmit=${submit}>
        <label>Offset <input inputmode="numeric" pattern="[0-9]*" size="10" value=${offset}
          placeholder=${`${first}–${end}`} onInput=${(event) => setOffset(event.target.value)} />
        </label>
        <${Button} type="submit">Go<//>
      </form>
      <form class="seek-group" onSubmit=${submitTime}>
        <label>Time <input type="datetime-local" step="1" value=${time}
          onInput=${(event) => setTime(event.target.value)} /></label>
        <${Button} type="submit">Go<//>
        ${PRESETS.map(([title, ms]) => html`<${Button} key=${title} kind="quiet"
          onClick=${() => seekTime(brokerNow() - ms)}>${title}<//>`)}
      </form>
      <form class="seek-group seek-filter" onSubmit=${submitFilter}>
        <label>Filter <input value=${filter} placeholder="dep_delay > 60 AND origin = 'JFK'"
          spellcheck=${false} onInput=${(event) => setFilter(event.target.value)} /></label>
        <label>Tags <input size="12" value=${tags} placeholder="late || lost" spellcheck=${false}
          onInput=${(event) => setTags(event.target.value)} /></label>
        <${Button} type="submit">Apply<//>
        ${(query.filter || query.tags) && html`<${Button} kind="quiet"
          onClick=${() => { setFilter(""); setTags(""); setQuery({ filter: null, tags: null }); }}>
          Clear<//>`}
      </form>
      ${trouble && html`<${Notice} kind="bad">${trouble}<//>`}
    </div>`;
}

function Pages({ path, partition, filters, from }) {
  const [state, setState] = useState({ messages: [], next: from, loading: true });
  const load = async (start, before) => {
    setState((now) => ({ ...now, loading: true, error: null }));
    try {
      const found = await get([...path, "browse"], {
        from: start, partition, limit: PAGE, truncate: TRUNCATE, ...filters,
      });
      setState({
        messages: [...before, ...found.messages], next: found.next, lost: found.lost,
        end: found.end, loading: false,
      });
    } catch (error) {
      // What is asked for may have been dropped, or not be there yet.
      const known = error.status === 410 || error.status === 416;
      setState((now) => ({ ...now, error, loading: false, restart: known }));
    }
  };
  useEffect(() => {
    load(from, []);
  }, []);
  const { messages, next, loading, error } = state;
  return html`
    ${error && html`<${FilterError} error=${error} text=${filters.filter ?? ""} />`}
    ${error && state.restart && html`<p><${Button} onClick=${() => setQuery({ from: null })}>
      Begin with the first that is kept<//></p>`}
    ${state.lost?.length > 0 && html`<${Notice} kind="warn">
      Damaged on disk: offsets ${state.lost.map(([a, b]) => `${a} to ${b - 1}`).join(", ")}<//>`}
    ${messages.length > 0 && html`<${MessageRows} messages=${messages} />`}
    ${!loading && !error && !messages.length && next === null && html`
      <${Empty} title="Nothing here">
        ${filters.filter || filters.tags
          ? "No message from here on passes the filter."
          : "No message from here on. Publish to the stream, or begin with the first one."}<//>`}
    <p class="more">
      ${loading && html`<span class="soft">Loading…</span>`}
      ${!loading && !error && next !== null && html`<${Button}
        onClick=${() => load(next, messages)}>
        ${messages.length
          ? `Next ${PAGE} messages` : `Look further, from offset ${count(next)}`}<//>`}
      ${!loading && messages.length > 0 && next === null && html`
        <span class="soft">End of the stream, offset ${count(state.end)}</span>`}
    </p>`;
}

function Tail({ path, partition, filters, end }) {
  const [messages, setMessages] = useState([]);
  const [paused, setPaused] = useState(false);
  const [waiting, setWaiting] = useState(0);
  const [error, setError] = useState(null);
  const at = useRef(end);
  const pausedNow = useRef(false);
  const wake = useRef(() => {});
  pausedNow.current = paused;
  useEffect(() => {
    const abort = new AbortController();
    follow({
      path, partition, filters, at, pausedNow, wake, setMessages, setWaiting, setError, abort,
    });
    return () => abort.abort();
  }, []);
  const go = () => {
    pausedNow.current = false;
    setPaused(false);
    setWaiting(0);
    wake.current();
  };
  return html`
    <div class="tail-bar" role="status">
      <span class=${paused ? "tail-dot is-paused" : "tail-dot"} aria-hidden="true"></span>
      ${paused ? `Stopped. ${count(waiting)} new` : "Following; the newest first"}
      ${" "}<${Button} onClick=${paused ? go : () => setPaused(true)}>
        ${paused ? "Go on" : "Stop"}<//>
    </div>
    ${error && html`<${FilterError} error=${error} text=${filters.filter ?? ""} />`}
    ${messages.length
      ? html`<${MessageRows} messages=${messages} fresh />`
      : html`<${Empty} title="Waiting for messages">They appear here as they come.<//>`}`;
}

/** Ask for what comes, again and again, until it is aborted; nothing while the tab is hidden. */
async function follow(tail) {
  const { path, partition, filters, at, abort } = tail;
  const ended = abort.signal;
  while (!ended.aborted) {
    const round = roundOf(ended);
    const { signal } = round;
    try {
      if (document.hidden) {
        await shown(ended);
        continue;
      }
      const beyond = `${partition}:${at.current}`;
      const info = await get(path, { beyond, wait_ms: WAIT_MS }, { signal });
      const { end } = info.partitions[partition];
      if (tail.pausedNow.current) {
        tail.setWaiting(Math.max(0, end - at.current));
        const woken = new Promise((done) => { tail.wake.current = done; });
        await Promise.race([later(STOPPED_MS, signal), woken]);
        continue;
      }
      if (end <= at.current) continue;
      const from = Math.max(at.current, end - TAIL_KEPT, info.partitions[partition].first);
      const found = await get([...path, "browse"], {
        from, partition, limit: TAIL_KEPT, truncate: TRUNCATE, ...filters,
      }, { signal });
      at.current = found.next ?? found.end;
      const newest = found.messages.reverse();
      tail.setMessages((known) => [...newest, ...known].slice(0, TAIL_KEPT));
      tail.setError(null);
    } catch (error) {
      if (ended.aborted) return;
      if (signal.aborted) continue;
      tail.setError(error);
      if (error.status === 400) return;
      await later(RETRY_MS, signal);
    } finally {
      round.leave();
    }
  }
}

/** A signal that is aborted with another one, and when the tab is hidden. */
function roundOf(ended) {
  const control = new AbortController();
  const end = () => control.abort();
  const hide = () => document.hidden && end();
  ended.addEventListener("abort", end);
  document.addEventListener("visibilitychange", hide);
  const leave = () => {
    ended.removeEventListener("abort", end);
    document.removeEventListener("visibilitychange", hide);
  };
  return { signal: control.signal, leave };
}

function later(ms, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
  });
}

function shown(signal) {
  return new Promise((done) => {
    const end = () => {
      document.removeEventListener("visibilitychange", end);
      done();
    };
    document.addEventListener("visibilitychange", end);
    signal.addEventListener("abort", end, { once: true });
  });
}
