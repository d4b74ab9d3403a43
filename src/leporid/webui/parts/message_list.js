/* Messages one below the other, of which one is open.

   Must not know where they are from. */

import { bytes, count, moment } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { MessageView } from "./message.js";

const PREVIEW = 120;

function preview(message) {
  if (message.payload_encoding === "base64") {
    return html`<span class="soft">no text</span>`;
  }
  const text = message.payload.slice(0, PREVIEW);
  return html`<code>${text}</code>${message.payload.length > PREVIEW && "…"}`;
}

/** @param {object} props messages; first: the number of the first one, where none has an offset. */
export function MessageList({ messages }) {
  const [open, setOpen] = useState(null);
  const withOffset = messages.some((each) => each.offset !== undefined);
  const columns = withOffset ? 7 : 5;
  return html`<div class="scroll" role="region" aria-label="Messages" tabindex="0">
    <table class="list messages">
      <caption class="only-read">Messages</caption>
      <thead>
        <tr>
          <th scope="col" class="right">${withOffset ? "Offset" : "No."}</th>
          ${withOffset && html`<th scope="col">Came</th>`}
          <th scope="col">Routing key</th>
          <th scope="col" class="right">Size</th>
          ${withOffset && html`<th scope="col">State</th>`}
          <th scope="col">Delivered before</th>
          <th scope="col">Body</th>
        </tr>
      </thead>
      <tbody>
        ${messages.map((each, at) => {
          const id = each.offset ?? at + 1;
          const shown = open === id;
          return html`<tr key=${id} class=${shown ? "open" : ""}>
              <td class="right">
                <button type="button" class="button quiet" aria-expanded=${shown ? "true" : "false"}
                  aria-label=${`Message ${id}`} onClick=${() => setOpen(shown ? null : id)}
                  ><span aria-hidden="true">${shown ? "▾" : "▸"}</span> ${count(id)}</button>
              </td>
              ${withOffset && html`<td class="moment">${moment(each.timestamp_ms)}</td>`}
              <td class="routing"><span class="name">${each.routing_key}</span></td>
              <td class="right">${bytes(each.payload_bytes)}</td>
              ${withOffset && html`<td>${each.state}</td>`}
              <td>${each.redelivered ? "yes" : "no"}</td>
              <td class="preview">${preview(each)}</td>
            </tr>
            ${shown &&
            html`<tr key=${`${id}-open`} class="opened"><td colspan=${columns}
              ><${MessageView} message=${each} /></td></tr>`}`;
        })}
      </tbody>
    </table>
  </div>`;
}
