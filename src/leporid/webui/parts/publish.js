/* The form that publishes one message, to an exchange or into a queue. */

import { objectIn } from "../core/arguments.js";
import { post } from "../core/api.js";
import { publish } from "../core/commands.js";
import { html, useState } from "../core/html.js";
import { useReasonNotTo } from "../core/session.js";
import { Field, Form } from "./form.js";
import { Notice } from "./notice.js";
import { Same } from "./page.js";

const PROPERTIES = [
  ["content_type", "Content type"],
  ["correlation_id", "Correlation id"],
  ["reply_to", "Reply to"],
  ["message_id", "Message id"],
  ["expiration", "Expires after, ms"],
  ["priority", "Priority"],
  ["type", "Type"],
];
const NUMBERS = new Set(["priority"]);

function propertiesOf(state) {
  const found = { ...objectIn("More properties", state.more) };
  if (state.persistent) {
    found.delivery_mode = 2;
  }
  for (const [name] of PROPERTIES) {
    const value = state.properties[name]?.trim();
    if (value) {
      found[name] = NUMBERS.has(name) ? Number(value) : value;
    }
  }
  const headers = objectIn("Headers", state.headers);
  if (Object.keys(headers).length) {
    found.headers = headers;
  }
  return found;
}

/**
 * @param {object} props
 * @param {string} props.vhost
 * @param {string} props.exchange its name in a path: "amq.default" for the default one.
 * @param {string} [props.queue] into which queue: the routing key is given then.
 * @param {function} [props.onDone] called when the broker has the message.
 */
export function PublishForm({ vhost, exchange, queue, onDone }) {
  const [state, setState] = useState({
    key: queue ?? "",
    payload: "",
    encoding: "string",
    headers: "",
    more: "",
    persistent: true,
    properties: {},
  });
  const [said, setSaid] = useState(null);
  const set = (name) => (value) => setState((before) => ({ ...before, [name]: value }));
  const property = (name) => (value) =>
    setState((before) => ({ ...before, properties: { ...before.properties, [name]: value } }));
  const why = useReasonNotTo("write", vhost, exchange);
  const path = ["exchanges", vhost, exchange, "publish"];
  const bodyOf = () => ({
    routing_key: queue ?? state.key,
    properties: propertiesOf(state),
    payload: state.payload,
    payload_encoding: state.encoding,
  });
  const send = async () => {
    setSaid(null);
    const { routed } = await post(path, bodyOf());
    setSaid({ routed });
    onDone?.();
  };
  let call = null;
  try {
    call = { method: "POST", path, body: bodyOf() };
  } catch {
    // Shown when the form is sent.
  }
  return html`<${Form} submit="Publish" onSubmit=${send} why=${why}>
      ${!queue &&
      html`<${Field} label="Routing key" name="routing_key" value=${state.key}
        onInput=${set("key")} autocomplete="off" spellcheck=${false} />`}
      <${Field} label="Body" name="payload" type="textarea" value=${state.payload}
        onInput=${set("payload")} spellcheck=${false} />
      <div class="form-row">
        <${Field} label="The body is" name="encoding" type="select" value=${state.encoding}
          onInput=${set("encoding")}
          options=${[{ value: "string", label: "text" }, { value: "base64", label: "base64" }]} />
        <${Field} label="Persistent: kept on disk in durable queues" name="persistent"
          type="checkbox" value=${state.persistent} onInput=${set("persistent")} />
      </div>
      <${Field} label="Headers, as JSON" name="headers" type="textarea" rows="2"
        value=${state.headers} onInput=${set("headers")} placeholder='{"region": "eu"}'
        spellcheck=${false} />
      <details>
        <summary>Properties</summary>
        <div class="form-row">
          ${PROPERTIES.map(
            ([name, title]) =>
              html`<${Field} key=${name} label=${title} name=${name}
                value=${state.properties[name] ?? ""} onInput=${property(name)} />`,
          )}
        </div>
        <${Field} label="More properties, as JSON" name="more" type="textarea" rows="2"
          value=${state.more} onInput=${set("more")} placeholder='{"app_id": "desk"}'
          spellcheck=${false} />
      </details>
      ${said &&
      html`<${Notice} kind=${said.routed ? "good" : "warn"}>
        ${said.routed
          ? "The message is in its queue."
          : "No queue takes this message: no binding matches its routing key and headers."}
      <//>`}
    <//>
    ${call && html`<${Same} cli=${publish(vhost, exchange, call.body)} http=${call} />`}`;
}
