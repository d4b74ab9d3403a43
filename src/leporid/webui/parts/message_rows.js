/* Messages as rows that open: time, routing key and the beginning of the body; all of it below.
   Must not know where they come from. */

import { html, useState } from "../core/html.js";
import { count, moment } from "../core/format.js";
import { MessageView } from "./message.js";

const PREVIEW_CHARACTERS = 140;

/** The beginning of a body on one line. */
export function previewOf(message) {
  if (message.payload_encoding === "base64") {
    return `${message.payload.slice(0, 40)}… (base64)`;
  }
  const text = message.payload.replace(/\s+/g, " ");
  return text.length > PREVIEW_CHARACTERS ? `${text.slice(0, PREVIEW_CHARACTERS)}…` : text;
}

/**
 * @param {{messages: object[], columns?: object[], caption?: string, placeTitle?: string}} props
 *   `columns`: {name, title, cell} that stand before the body; messages are those of `browse`.
 */
export function MessageRows({
  messages, columns = [], caption = "Messages", placeTitle = "Offset",
}) {
  const [open, setOpen] = useState(() => new Set());
  const toggle = (offset) => {
    const next = new Set(open);
    if (!next.delete(offset)) {
      next.add(offset);
    }
    setOpen(next);
  };
  const across = 4 + columns.length;
  return html`<div class="scroll" role="region" aria-label=${caption} tabindex="0">
    <table class="list message-rows">
      <caption class="only-read">${caption}</caption>
      <thead><tr>
        <th scope="col">${placeTitle}</th><th scope="col">Came</th>
        ${columns.map((one) => html`<th scope="col" key=${one.name}>${one.title}</th>`)}
        <th scope="col" class="wide-only">Routing key</th><th scope="col">Body</th>
      </tr></thead>
      <tbody>
        ${messages.map((message) => html`
          <tr key=${message.offset}>
            <td><button type="button" class="open-row" aria-expanded=${open.has(message.offset)
              ? "true" : "false"} onClick=${() => toggle(message.offset)}>
              ${count(message.offset)}</button></td>
            <td class="nowrap">${moment(message.timestamp_ms)}</td>
            ${columns.map((one) => html`<td key=${one.name}>${one.cell(message)}</td>`)}
            <td class="routing wide-only"><span class="name">${message.routing_key}</span></td>
            <td class="preview" onClick=${() => toggle(message.offset)}>
              <code>${previewOf(message)}</code></td>
          </tr>
          ${open.has(message.offset) && html`<tr key=${`${message.offset} open`} class="opened">
            <td colspan=${across}><${MessageView} message=${message} /></td></tr>`}`)}
      </tbody>
    </table>
  </div>`;
}
