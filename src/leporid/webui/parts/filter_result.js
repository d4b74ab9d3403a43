/* What a filter makes of messages: how many match, and of each why. */

import { html, useState } from "../core/html.js";
import { count, moment, percent } from "../core/format.js";
import { Button } from "./button.js";
import { MessageView } from "./message.js";
import { previewOf } from "./message_rows.js";

const SHOWN = 100;

/** @param {{result: object, kind: string, stale: boolean, onAgain: Function}} props */
export function FilterResult({ result, kind, stale, onAgain }) {
  const [only, setOnly] = useState("all");
  const [most, setMost] = useState(SHOWN);
  const { looked_at: looked, matched, skipped, messages } = result;
  const rows = messages.filter((one) => only === "all" || one.matched === (only === "matched"));
  const choices = [["all", `All ${looked}`], ["matched", `Matched ${matched}`],
    ["skipped", `Skipped ${skipped}`]];
  return html`<section class="stack" aria-label="Result" aria-busy=${stale ? "true" : "false"}>
    <div class="row">
      <p role="status" class="filter-sum"><strong>${count(matched)}</strong> of ${count(looked)}
        ${" "}newest messages match${looked ? ` (${percent(matched / looked)})` : ""}</p>
      <div class="switch" role="group" aria-label="Show">
        ${choices.map(([id, title]) => html`<button type="button" key=${id}
          aria-pressed=${only === id ? "true" : "false"} onClick=${() => setOnly(id)}>${title}
        </button>`)}
      </div>
      <${Button} onClick=${onAgain}>Look again<//>
    </div>
    <svg class="filter-bar" viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="filter-skipped" width="1000" height="8" />
      <rect class="filter-matched" width=${looked ? (matched / looked) * 1000 : 0} height="8" />
    </svg>
    ${looked === 0 ? html`<p class="soft">There are no messages in this ${kind}.</p>`
      : html`<${Rows} rows=${rows.slice(0, most)} />`}
    ${rows.length > most && html`<p><${Button} onClick=${() => setMost(most + SHOWN)}>
      Show ${Math.min(SHOWN, rows.length - most)} more<//></p>`}
  </section>`;
}

function Rows({ rows }) {
  const [open, setOpen] = useState(null);
  return html`<div class="scroll" role="region" aria-label="Messages and why they match"
    tabindex="0">
    <table class="list message-rows">
      <caption class="only-read">Messages and why they match</caption>
      <thead><tr><th scope="col">Message</th><th scope="col">Matches</th><th scope="col">Why</th>
        <th scope="col">Came</th><th scope="col">Routing key</th><th scope="col">Body</th></tr>
      </thead>
      <tbody>
        ${rows.length === 0 && html`<tr><td class="none" colspan="6">None of these.</td></tr>`}
        ${rows.map((row) => html`
          <tr key=${row.offset}>
            <td><button type="button" class="open-row"
              aria-expanded=${open === row.offset ? "true" : "false"}
              onClick=${() => setOpen(open === row.offset ? null : row.offset)}>
              ${count(row.offset)}</button></td>
            <td><span class=${row.matched ? "state good" : "state"}>
              ${row.matched ? "✓ matches" : "skipped"}</span></td>
            <td class="why">${whyOf(row)}</td>
            <td class="nowrap">${moment(row.timestamp_ms)}</td>
            <td class="routing"><span class="name">${row.routing_key}</span></td>
            <td class="preview"><code>${previewOf(row)}</code></td>
          </tr>
          ${open === row.offset && html`<tr key=${`${row.offset} open`} class="opened">
            <td colspan="6"><div class="stack">
              <${Parts} parts=${row.parts} /><${MessageView} message=${row} /></div></td></tr>`}`)}
      </tbody>
    </table>
  </div>`;
}

/** The reason in a line: the first part that decided, with its value. */
function whyOf(row) {
  const decided = row.parts.filter((part) => part.depth > 0 && isCondition(part));
  if (!row.parts.length || row.reason.includes("tag")) {
    return row.reason;
  }
  const wanted = row.matched ? "true" : row.parts[0].value;
  const part = decided.find((one) => one.value === wanted) ?? row.parts[0];
  const below = row.parts[row.parts.indexOf(part) + 1];
  const value = below && below.depth > part.depth && !isCondition(below)
    ? `, as ${below.text} is ${below.value}` : "";
  return html`<code>${part.text}</code> is ${part.value}${value}`;
}

const CONDITIONS = new Set(["true", "false", "unknown", "type error", "not reached"]);

function isCondition(part) {
  return CONDITIONS.has(part.value);
}

function Parts({ parts }) {
  if (!parts.length) {
    return null;
  }
  return html`<table class="list parts">
    <caption class="only-read">Each part of the expression with its value</caption>
    <thead><tr><th scope="col">Value</th><th scope="col">Part of the expression</th></tr></thead>
    <tbody>${parts.map((part, at) => html`<tr key=${at}>
      <td><span class=${`part-value part-${CONDITIONS.has(part.value)
        ? part.value.replace(" ", "-") : "value"}`}>${part.value}</span></td>
      <td><code class=${`part-text depth-${Math.min(8, part.depth)}`}>${part.text}</code></td>
    </tr>`)}</tbody>
  </table>`;
}
