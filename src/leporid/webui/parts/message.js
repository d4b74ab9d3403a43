/* One message: its body as text, as a JSON tree or as bytes, its properties and its headers.

   Must not know where the message is from. Invariant: what a publisher wrote is text, never markup;
   of a large body no more is drawn than a reader can use. */

import { bytes, count, moment } from "../core/format.js";
import { html, useMemo, useState } from "../core/html.js";
import { Copy } from "./copy.js";
import { JsonTree } from "./json_tree.js";
import { Key } from "./key.js";

const TEXT_MAX = 100_000;
const HEX_STEP = 2048;
const HEX_ROW = 16;

/** The bytes of a body as the API gives it. */
function bodyBytes(message) {
  if (message.payload_encoding === "base64") {
    const text = atob(message.payload);
    return Uint8Array.from(text, (each) => each.charCodeAt(0));
  }
  return new TextEncoder().encode(message.payload ?? "");
}

function parsed(text) {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return null;
  }
}

/** @param {object} props message: as GET …/browse or POST …/get gives it. */
export function MessageView({ message }) {
  const body = useMemo(() => bodyBytes(message), [message]);
  const isText = message.payload_encoding !== "base64";
  const json = useMemo(() => (isText ? parsed(message.payload) : null), [message]);
  const isTree = json !== null && typeof json.value === "object" && json.value !== null;
  const [chosen, setChosen] = useState(null);
  const view = chosen ?? (isTree ? "json" : isText ? "text" : "hex");
  const views = [
    ["json", "JSON", isTree ? "" : "The body is not a JSON object or array."],
    ["text", "Text", isText ? "" : "The body is not UTF-8 text."],
    ["hex", "Hex", ""],
  ];
  const whole = message.payload_bytes ?? body.length;
  const { headers, ...properties } = asObject(message.properties);
  const names = Object.keys(headers ?? {});
  return html`<article class="message">
    <div class="message-head">
      <div class="switch" role="group" aria-label="Show the body as">
        ${views.map(
          ([id, title, why]) =>
            html`<button key=${id} type="button" disabled=${Boolean(why)} title=${why}
              aria-pressed=${view === id ? "true" : "false"}
              onClick=${() => setChosen(id)}>${title}</button>`,
        )}
      </div>
      <span class="soft">${bytes(whole)}${body.length < whole &&
      `, the first ${bytes(body.length)} are shown`}</span>
      ${isText && html`<${Copy} text=${message.payload} label="Copy body" />`}
    </div>
    ${view === "json" && html`<${JsonTree} value=${json.value} />`}
    ${view === "text" &&
    html`<pre class="body" tabindex="0">${message.payload.slice(0, TEXT_MAX)}${message.payload
      .length > TEXT_MAX && "…"}${message.payload === "" && html`<em>empty</em>`}</pre>`}
    ${view === "hex" && html`<${Hex} data=${body} />`}
    <div class="message-facts">
      <section>
        <h2>Message</h2>
        <${Key}
          rows=${[
            ["Exchange", message.exchange === "" ? "(default)" : message.exchange],
            ["Routing key", message.routing_key],
            ["Offset", message.offset === undefined ? null : count(message.offset)],
            ["Partition", message.partition],
            ["Came", message.timestamp_ms ? moment(message.timestamp_ms) : null],
            ["State", message.state],
            ["Redelivered", message.redelivered === undefined ? null : yesNo(message.redelivered)],
          ]}
        />
      </section>
      <section>
        <h2>Properties</h2>
        ${Object.keys(properties).length
          ? html`<${Key} rows=${Object.entries(properties).map(property)} />`
          : html`<p class="soft">None.</p>`}
      </section>
      <section>
        <h2>Headers</h2>
        ${names.length
          ? html`<${Key} rows=${names.map((name) => [name, shown(headers[name])])} />`
          : html`<p class="soft">None.</p>`}
      </section>
    </div>
  </article>`;
}

/** The API gives an empty list for a table without members. */
function asObject(value) {
  return value && !Array.isArray(value) ? value : {};
}

function yesNo(value) {
  return value ? "yes" : "no";
}

function property([name, value]) {
  if (name === "delivery_mode") {
    return [name, value === 2 ? "2 (persistent)" : `${value} (transient)`];
  }
  if (name === "timestamp" && typeof value === "number") {
    return [name, `${value} (${moment(value * 1000)})`];
  }
  return [name, shown(value)];
}

function shown(value) {
  return value !== null && typeof value === "object"
    ? html`<${JsonTree} value=${value} />`
    : String(value);
}

function Hex({ data }) {
  const [limit, setLimit] = useState(HEX_STEP);
  const lines = [];
  for (let at = 0; at < Math.min(limit, data.length); at += HEX_ROW) {
    const row = [...data.subarray(at, at + HEX_ROW)];
    const hex = row.map((each) => each.toString(16).padStart(2, "0")).join(" ");
    const text = row.map((each) => (each > 31 && each < 127 ? String.fromCharCode(each) : "·"));
    const place = at.toString(16).padStart(8, "0");
    lines.push(`${place}  ${hex.padEnd(HEX_ROW * 3 - 1)}  ${text.join("")}`);
  }
  const text = lines.length ? lines.join("\n") : html`<em>empty</em>`;
  return html`<pre class="body" tabindex="0">${text}</pre>
    ${limit < data.length &&
    html`<button type="button" class="button" onClick=${() => setLimit(limit + HEX_STEP)}>
      Show ${bytes(Math.min(HEX_STEP, data.length - limit))} more
    </button>`}`;
}
