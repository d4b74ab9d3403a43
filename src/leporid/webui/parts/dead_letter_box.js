/* The dead letters that a queue holds: where, why and how often each died; and sending back those
   that are chosen. Must not know how messages are moved: the broker does. */

import { html, useEffect, useState } from "../core/html.js";
import { get } from "../core/api.js";
import { moment } from "../core/format.js";
import { setQuery } from "../core/route.js";
import { useReasonNotTo } from "../core/session.js";
import { Button } from "./button.js";
import { Empty } from "./empty.js";
import { REASONS } from "./death_rates.js";
import { MessageRows } from "./message_rows.js";
import { Notice } from "./notice.js";
import { Redrive } from "./redrive.js";

const PAGE = 50;
const TRUNCATE = 2000;

/** The reason that an address chooses; "" for any. */
export function reasonIn(query) {
  return REASONS.includes(query.reason) ? query.reason : "";
}

/** The last death of a message, as its header x-death tells it; {} without one. */
function deathOf(message) {
  const deaths = message.properties?.headers?.["x-death"];
  return Array.isArray(deaths) && deaths.length ? deaths[0] : {};
}

const sqlText = (text) => `'${text.replaceAll("'", "''")}'`;

/** The filter expression for what is chosen; undefined for all. */
export function expressionOf({ reason, died_in: queue }) {
  const parts = [];
  if (reason) {
    parts.push(`"x-last-death-reason" = ${sqlText(reason)}`);
  }
  if (queue) {
    parts.push(`"x-last-death-queue" = ${sqlText(queue)}`);
  }
  return parts.length ? parts.join(" AND ") : undefined;
}

/** @param {{vhost: string, queue: string, query: object}} props */
export function DeadLetterBox({ vhost, queue, query }) {
  const [sending, setSending] = useState(false);
  const mayNot = useReasonNotTo("read", vhost, queue);
  const [version, setVersion] = useState(0);
  const reason = reasonIn(query);
  const diedIn = query.died_in ?? "";
  const filter = expressionOf({ reason, died_in: diedIn });
  const rows = usePages(["queues", vhost, queue, "browse"], filter, version);
  const origins = [...new Set([diedIn, ...rows.messages.map((one) => deathOf(one).queue)])]
    .filter((name) => typeof name === "string" && name);
  return html`
    <div class="stack">
      <div class="row">
        <label class="row">Reason <select value=${reason}
          onChange=${(event) => setQuery({ reason: event.target.value || null })}>
          <option value="">any</option>
          ${REASONS.map((one) => html`<option key=${one} value=${one}
            selected=${one === reason}>${one}</option>`)}</select></label>
        <label class="row">Died in <select value=${diedIn}
          onChange=${(event) => setQuery({ died_in: event.target.value || null })}>
          <option value="">any queue</option>
          ${origins.map((one) => html`<option key=${one} value=${one}
            selected=${one === diedIn}>${one}</option>`)}</select></label>
        <${Button} onClick=${() => setVersion(version + 1)}>Look again<//>
        <${Button} kind="main" onClick=${() => setSending(true)} why=${mayNot}
          disabled=${!rows.messages.length}>Send ${filter ? "these" : "all"} back…<//>
      </div>
      ${rows.error && html`<${Notice} kind="bad">${rows.error.message}<//>`}
      ${rows.messages.length > 0 && html`<${MessageRows} messages=${rows.messages}
        caption=${`Dead letters in ${queue}`} placeTitle="Number" columns=${[
          { name: "queue", title: "Died in", cell: (one) => html`<span class="name">${
            text(deathOf(one).queue)}</span>` },
          { name: "reason", title: "Reason", cell: (one) => html`<span class="badge">${
            text(deathOf(one).reason) || "never died"}</span>` },
          { name: "count", title: "Times", cell: (one) => text(deathOf(one).count) },
          { name: "time", title: "Died", cell: (one) => diedAt(deathOf(one)) },
        ]} />`}
      ${!rows.loading && !rows.error && !rows.messages.length && html`
        <${Empty} title="No dead letters here">
          ${filter ? "None match. Choose another reason or queue."
            : "The queue is empty. Choose another."}<//>`}
      ${rows.next !== null && !rows.loading && rows.messages.length > 0 && html`<p>
        <${Button} onClick=${rows.more}>Next ${PAGE}<//></p>`}
      ${sending && html`<${Redrive} vhost=${vhost} queue=${queue} filter=${filter}
        onClose=${() => { setSending(false); setVersion(version + 1); }} />`}
    </div>`;
}

function text(value) {
  return value === undefined || value === null ? "" : String(value);
}

function diedAt(death) {
  const seconds = typeof death.time === "number" ? death.time : null;
  return html`<span class="nowrap">${seconds === null ? "" : moment(seconds * 1000)}</span>`;
}

function usePages(path, filter, version) {
  const [state, setState] = useState({ messages: [], next: null, loading: true, error: null });
  const load = async (from, known) => {
    try {
      const found = await get(path, { from, limit: PAGE, truncate: TRUNCATE, filter });
      setState({ messages: [...known, ...found.messages], next: found.next, loading: false,
        error: null });
    } catch (error) {
      setState((now) => ({ ...now, error, loading: false }));
    }
  };
  useEffect(() => {
    setState((now) => ({ ...now, loading: true }));
    load(0, []);
  }, [JSON.stringify([path, filter]), version]);
  return { ...state, more: () => load(state.next, state.messages) };
}
