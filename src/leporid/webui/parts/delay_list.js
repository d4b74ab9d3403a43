/* The delayed messages of an exchange that are due next, or in a stretch of time; those that a
   filter chooses; looking at one, cancelling one or all that were chosen. */

import { brokerNow } from "../core/clock.js";
import { html, useEffect, useState } from "../core/html.js";
import { get, remove } from "../core/api.js";
import { bytes, count, counted, duration, moment } from "../core/format.js";
import { setQuery, useRoute } from "../core/route.js";
import { useReasonNotTo } from "../core/session.js";
import { useVisible } from "../core/visible.js";
import { Button } from "./button.js";
import { Confirm } from "./confirm.js";
import { Dialog } from "./dialog.js";
import { Empty } from "./empty.js";
import { FilterError } from "./filter_error.js";
import { Field, Form } from "./form.js";
import { Grid } from "./grid.js";
import { MessageView } from "./message.js";
import { Notice } from "./notice.js";

const PAGE = 50;
const EVERY_MS = 3000;

/** An id before all messages that are due at a time: ids begin with it, in hexadecimal. */
function before(due_ms) {
  return `${Math.max(0, Math.floor(due_ms) - 1).toString(16)}-0`;
}

/** @param {{vhost: string, exchange: string, exchanges: string[], stretch: object|null}} props */
export function DelayList({ vhost, exchange, exchanges, stretch, onExchange, onWhole }) {
  const chosen = useRoute().query.filter ?? "";
  const [filter, setFilter] = useState(chosen);
  useEffect(() => setFilter(chosen), [chosen]);
  const [shown, setShown] = useState(null);
  const [asked, setAsked] = useState(null);
  const [said, setSaid] = useState(null);
  const path = ["delays", vhost, exchange];
  const rows = useRows(path, stretch, chosen);
  const cancelled = (text) => { setSaid(text); rows.again(); };
  const mayNot = useReasonNotTo("configure", vhost, exchange);
  const columns = columnsOf(setShown, (row) => setAsked({ row }), mayNot);
  return html`
    <section class="stack" aria-label="What is due">
      <div class="row delay-head">
        <h2>${stretch ? `Due ${moment(stretch.from)} to ${moment(stretch.to)}` : "Due next"}</h2>
        ${stretch && html`<${Button} kind="quiet" onClick=${onWhole}>Show from now on<//>`}
        <label class="row">Exchange <select value=${exchange}
          onChange=${(event) => onExchange(event.target.value)}>
          ${exchanges.map((name) => html`<option key=${name} value=${name}
            selected=${name === exchange}>${name}</option>`)}</select></label>
      </div>
      <${Form} inline submit="Apply" kind="plain"
        onSubmit=${() => setQuery({ filter: filter.trim() || null })}>
        <${Field} label="Filter" name="filter" value=${filter} onInput=${setFilter}
          placeholder="customer = 4711 AND p.priority > 3" spellcheck=${false} size="48" />
      <//>
      ${said && html`<${Notice} kind="good" onClose=${() => setSaid(null)}>${said}<//>`}
      ${rows.error && html`<${FilterError} error=${rows.error} text=${chosen} />`}
      ${chosen && rows.matched !== null && html`<div class="row">
        <span>${counted(rows.matched, "message")} of this exchange match.</span>
        <${Button} kind="danger" disabled=${!rows.matched} why=${mayNot}
          onClick=${() => setAsked({ filter: chosen, matched: rows.matched })}>
          Cancel all that match…<//>
      </div>`}
      <${Grid} rows=${rows.messages} columns=${columns} rowKey=${(row) => row.id}
        caption="Delayed messages" empty=${rows.loading ? html`<p class="soft">Loading…</p>`
          : html`<${Empty} title="Nothing is due here">
            Choose another stretch of the timeline.<//>`} />
      ${rows.more && html`<p><${Button} onClick=${rows.next}>Next ${PAGE}<//></p>`}
      <${Look} path=${path} row=${shown} onClose=${() => setShown(null)} />
      <${Cancel} path=${path} asked=${asked} onClose=${() => setAsked(null)} onDone=${cancelled} />
    </section>`;
}

function columnsOf(show, cancel, mayNotCancel) {
  return [
    { name: "due_ms", title: "Due in", cell: (row) => html`<span class="nowrap">${
      duration(Math.max(0, row.due_ms - brokerNow()))}</span>` },
    { name: "at", title: "Due at", wide: true, value: (row) => row.due_ms,
      cell: (row) => html`<span class="nowrap">${moment(row.due_ms)}</span>` },
    { name: "routing_key", title: "Routing key", wide: true,
      cell: (row) => html`<span class="name">${row.routing_key}</span>` },
    { name: "message_id", title: "Message id",
      cell: (row) => html`<span class="name">${row.message_id ?? ""}</span>` },
    { name: "body_bytes", title: "Body", align: "right", wide: true,
      cell: (row) => bytes(row.body_bytes) },
    { name: "came_ms", title: "Came", wide: true, cell: (row) => html`<span class="nowrap">${
      moment(row.came_ms)}</span>` },
    { name: "act", title: "", label: "Actions", cell: (row) => html`<span class="row">
      <${Button} onClick=${() => show(row)} label=${`Look at ${row.id}`}>Look<//>
      <${Button} kind="danger" onClick=${() => cancel(row)} why=${mayNotCancel}
        label=${`Cancel ${row.id}`}>Cancel…<//>
    </span>` },
  ];
}

/** Pages of messages by when they are due. */
function useRows(path, stretch, filter) {
  const visible = useVisible();
  const [state, setState] = useState({ messages: [], loading: true, matched: null, more: false });
  const [round, setRound] = useState(0);
  const until = stretch ? stretch.to : Infinity;
  const load = async (after, known) => {
    try {
      const found = await get(path, { limit: PAGE, after, filter: filter || undefined });
      const fresh = found.messages.filter((one) => one.due_ms < until);
      setState({
        messages: [...known, ...fresh], matched: found.matched ?? null, loading: false, error: null,
        more: fresh.length === PAGE,
      });
    } catch (error) {
      setState((now) => ({ ...now, error, loading: false, more: false }));
    }
  };
  const start = stretch ? before(stretch.from) : undefined;
  useEffect(() => {
    setState((now) => ({ ...now, loading: true }));
    load(start, []);
  }, [JSON.stringify([path, stretch, filter]), round]);
  // What is due next goes its way: the first page is asked for again, and times are counted down.
  const isFirst = state.messages.length <= PAGE;
  useEffect(() => {
    if (!visible || !isFirst) {
      return undefined;
    }
    const timer = setInterval(() => load(start, []), EVERY_MS);
    return () => clearInterval(timer);
  }, [JSON.stringify([path, stretch, filter]), visible, isFirst]);
  return {
    ...state,
    again: () => setRound(round + 1),
    next: () => load(state.messages.at(-1).id, state.messages),
  };
}

function Look({ path, row, onClose }) {
  const [message, setMessage] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    setMessage(null);
    setError(null);
    if (row) {
      get([...path, row.id]).then((found) => setMessage({
        ...found, payload: found.body, timestamp_ms: found.came_ms,
        payload_encoding: found.body_encoding === "base64" ? "base64" : "string",
        payload_bytes: found.body_bytes,
      }), setError);
    }
  }, [row?.id]);
  return html`<${Dialog} open=${row !== null} wide onClose=${onClose}
    title=${row ? `Due ${moment(row.due_ms)}` : ""}>
    ${error && html`<${Notice} kind="warn">${error.message}<//>`}
    ${message && html`<${MessageView} message=${message} />`}
  <//>`;
}

function Cancel({ path, asked, onClose, onDone }) {
  if (!asked) {
    return null;
  }
  if (asked.row) {
    const cancel = async () => {
      await remove([...path, asked.row.id]);
      onDone("The message was cancelled. That is on disk.");
    };
    return html`<${Confirm} open danger title="Cancel this message" yes="Cancel the message"
      onYes=${cancel} onClose=${onClose}
      what=${`It is due ${moment(asked.row.due_ms)}, with the routing key ` +
        `"${asked.row.routing_key}". It will never come.`} />`;
  }
  const cancelAll = async () => {
    const { cancelled } = await remove(path, undefined, { filter: asked.filter });
    onDone(`${counted(cancelled, "message")} cancelled. That is on disk.`);
  };
  return html`<${Confirm} open danger title="Cancel all that match" yes=${
    `Cancel ${count(asked.matched)}`} typed=${path[2]} onYes=${cancelAll} onClose=${onClose}
    what=${html`${counted(asked.matched, "message")} of this exchange for which
      ${" "}<code>${asked.filter}</code> is true will never come.`} />`;
}
