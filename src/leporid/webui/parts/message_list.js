/* Messages one below the other, of which one is open.

   Must not know where they are from. */

import { bytes, count, moment } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { MessageView } from "./message.js";
import { previewOf } from "./message_rows.js";

/** @param {object} props messages; first: the number of the first one, where none has an offset. */
export function MessageList({ messages }) {
  const [open, setOpen] = useState(null);
  const withOffset = messages.some((each) => each.offset !== undefined);
  const columns = withOffset ? 7 : 5;
  return html`<div class="scroll" role="region" aria-label="Messages" tabindex="0">
    <table class="list messages message-rows">
      <caption class="only-read">Messages</caption>
      <thead>
        <tr>
          <th scope="col" class="right">${withOffset ? "Offset" : "No."}</th>
          ${withOffset && html`<th scope="col">Came</th>`}
          <th scope="col" class="wide-only">Routing key</th>
          <th scope="col" class="right wide-only">Size</th>
          ${withOffset && html`<th scope="col" class="wide-only">State</th>`}
          <th scope="col" class="wide-only">Delivered before</th>
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
              <td class="routing wide-only"><span class="name">${each.routing_key}</span></td>
              <td class="right wide-only">${bytes(each.payload_bytes)}</td>
              ${withOffset && html`<td class="wide-only">${each.state}</td>`}
              <td class="wide-only">${each.redelivered ? "yes" : "no"}</td>
              <td class="preview" onClick=${() => setOpen(shown ? null : id)}
                ><code>${previewOf(each)}</code></td>
            </tr>
            ${shown &&
            html`<tr key=${`${id}-open`} class="opened"><td colspan=${columns}
              ><${MessageView} message=${each} /></td></tr>`}`;
        })}
      </tbody>
    </table>
  </div>`;
}
