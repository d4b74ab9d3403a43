/* The form that declares a queue or a stream. */

import { argumentValue, objectIn } from "../core/arguments.js";
import { put } from "../core/api.js";
import { addQueue } from "../core/commands.js";
import { html, useEffect, useState } from "../core/html.js";
import { useReasonNotTo } from "../core/session.js";
import { Dialog } from "./dialog.js";
import { Field, Form } from "./form.js";
import { Same } from "./page.js";
import { VhostField } from "./vhost_field.js";

const TYPES = [
  { value: "classic", label: "Classic" },
  { value: "quorum", label: "Quorum" },
  { value: "stream", label: "Stream" },
];
const QUEUE = ["classic", "quorum"];
const EVERY = [...QUEUE, "stream"];

/** [argument, title, kind, types, hint or options] */
const SETTINGS = [
  ["x-message-ttl", "Time to live, ms", "number", QUEUE],
  ["x-max-length", "At most so many messages", "number", QUEUE],
  ["x-max-length-bytes", "At most so many bytes", "number", EVERY],
  ["x-overflow", "When it is full", "select", QUEUE,
    ["", "drop-head", "reject-publish", "reject-publish-dlx"]],
  ["x-dead-letter-exchange", "Dead letters go to the exchange", "text", QUEUE],
  ["x-dead-letter-routing-key", "with the routing key", "text", QUEUE],
  ["x-delivery-limit", "Deliveries before it is a dead letter", "number", QUEUE],
  ["x-expires", "Deleted when unused for, ms", "number", QUEUE],
  ["x-max-priority", "Priorities up to", "number", ["classic"]],
  ["x-single-active-consumer", "One active consumer at a time", "boolean", QUEUE],
  ["x-max-age", "Keep messages for, such as 7D", "text", ["stream"]],
  ["x-stream-max-segment-size-bytes", "Bytes of a segment", "number", ["stream"]],
];
const NEW = { name: "", type: "classic", durable: true, autoDelete: false, more: "", settings: {} };

function argumentsOf(state) {
  const found = objectIn("More arguments", state.more);
  if (state.type !== "classic") {
    found["x-queue-type"] = state.type;
  }
  for (const [name, title, kind, types] of SETTINGS) {
    if (types.includes(state.type)) {
      const plain = kind === "select" ? "text" : kind;
      const value = argumentValue(title, plain, state.settings[name]);
      if (value !== undefined) {
        found[name] = value;
      }
    }
  }
  return found;
}

function bodyOf(state) {
  const durable = state.type === "classic" ? state.durable : true;
  const autoDelete = state.type === "classic" && state.autoDelete;
  return { durable, auto_delete: autoDelete, arguments: argumentsOf(state) };
}

/** The call, or null while something cannot be sent. */
function callOf(state, vhost) {
  try {
    return { method: "PUT", path: ["queues", vhost, state.name], body: bodyOf(state) };
  } catch {
    return null;
  }
}

/**
 * @param {object} props open, vhost or null, type to begin with, onClose,
 *   onDone(vhost, name, type).
 */
export function DeclareQueue({ open, vhost, onClose, onDone, type = "classic" }) {
  const [state, setState] = useState(NEW);
  const [place, setPlace] = useState(vhost ?? "");
  useEffect(() => {
    setState({ ...NEW, type });
    setPlace(vhost ?? "");
  }, [open, vhost, type]);
  const mayNot = useReasonNotTo("configure", place, state.name);
  const why = place && state.name ? mayNot : "";
  const set = (name) => (value) => setState((before) => ({ ...before, [name]: value }));
  const setting = (name) => (value) =>
    setState((before) => ({ ...before, settings: { ...before.settings, [name]: value } }));
  const declare = async () => {
    await put(["queues", place, state.name], bodyOf(state));
    onDone(place, state.name, state.type);
  };
  const call = open && state.name ? callOf(state, place) : null;
  return html`<${Dialog} open=${open} title="Declare a queue" onClose=${onClose} wide=${true}>
    <${Form} submit="Declare" onSubmit=${declare} onCancel=${onClose} why=${why}
      disabled=${!state.name}>
      <div class="form-row">
        <${Field} label="Name" name="name" value=${state.name} onInput=${set("name")}
          required=${true} autocomplete="off" spellcheck=${false} />
        <${VhostField} value=${place} onInput=${setPlace} />
        <${Field} label="Type" name="type" type="select" options=${TYPES} value=${state.type}
          onInput=${set("type")} />
      </div>
      ${state.type === "classic" &&
      html`<div class="form-row">
        <${Field} label="Durable: still there after a restart" name="durable" type="checkbox"
          value=${state.durable} onInput=${set("durable")} />
        <${Field} label="Auto-delete: gone with its last consumer" name="auto_delete"
          type="checkbox" value=${state.autoDelete} onInput=${set("autoDelete")} />
      </div>`}
      <div class="form-row">
        ${SETTINGS.filter(([, , , types]) => types.includes(state.type)).map(
          ([name, title, kind, , options]) =>
            html`<${Field}
              key=${name}
              label=${title}
              name=${name}
              hint=${html`<code>${name}</code>`}
              type=${kind === "boolean" ? "checkbox" : kind === "select" ? "select" : "text"}
              inputmode=${kind === "number" ? "numeric" : undefined}
              options=${options}
              value=${state.settings[name] ?? ""}
              onInput=${setting(name)}
            />`,
        )}
      </div>
      <${Field} label="More arguments, as JSON" name="more" type="textarea" rows="2"
        value=${state.more} onInput=${set("more")} placeholder="{}" spellcheck=${false} />
    <//>
    ${call &&
    html`<${Same} cli=${addQueue(place, state.name, call.body)} http=${call} />`}
  <//>`;
}
