/* The form that declares an exchange. */

import { argumentValue, objectIn } from "../core/arguments.js";
import { put } from "../core/api.js";
import { addExchange } from "../core/commands.js";
import { useData } from "../core/data.js";
import { html, useEffect, useState } from "../core/html.js";
import { useReasonNotTo } from "../core/session.js";
import { Dialog } from "./dialog.js";
import { Field, Form } from "./form.js";
import { Same } from "./page.js";
import { VhostField } from "./vhost_field.js";

const TYPES = ["direct", "fanout", "headers", "topic"];
const HINTS = {
  direct: "To the queues whose binding has the message's routing key.",
  fanout: "To all queues that are bound.",
  topic: "To the queues whose pattern matches the routing key: a.*.c, a.#.",
  headers: "To the queues whose binding's arguments are in the message's headers.",
  "x-consistent-hash": "To one queue, by the key's hash; the binding's key is its weight.",
  "x-delayed-message": "When the time of the header x-delay is over, as the type below says.",
  "x-message-deduplication": "Each message once, by its header x-deduplication-header.",
  "x-recent-history": "To all queues; a new one gets the last messages as well.",
};
/** [argument, title, kind, types it is for; none: all] */
const SETTINGS = [
  ["alternate-exchange", "What meets no binding goes to the exchange", "text"],
  ["x-delayed-type", "Routes what is due as", "text", ["x-delayed-message"]],
  ["hash-header", "Hash this header", "text", ["x-consistent-hash"]],
  ["x-cache-size", "Remember so many messages", "number", ["x-message-deduplication"]],
  ["x-cache-ttl", "for so many ms", "number", ["x-message-deduplication"]],
  ["x-recent-history-length", "Keep so many messages", "number", ["x-recent-history"]],
];
const NEW = {
  name: "", type: "direct", durable: true, auto_delete: false, internal: false, more: "",
  settings: {},
};

function settingsOf(type) {
  return SETTINGS.filter(([, , , types]) => !types || types.includes(type));
}

function bodyOf({ type, durable, auto_delete: autoDelete, internal, more, settings }) {
  const found = objectIn("More arguments", more);
  for (const [name, title, kind] of settingsOf(type)) {
    const value = argumentValue(title, kind, settings[name]);
    if (value !== undefined) {
      found[name] = value;
    }
  }
  return { type, durable, auto_delete: autoDelete, internal, arguments: found };
}

/** @param {object} props open, vhost or null, onClose, onDone(vhost, name). */
export function DeclareExchange({ open, vhost, onClose, onDone }) {
  const [state, setState] = useState(NEW);
  const [place, setPlace] = useState(vhost ?? "");
  const { data } = useData(open ? ["overview"] : null, { columns: "exchange_types" });
  const types = data ? data.exchange_types.map((each) => each.name) : TYPES;
  const described = data?.exchange_types.find((each) => each.name === state.type)?.description;
  useEffect(() => {
    setState(NEW);
    setPlace(vhost ?? "");
  }, [open, vhost]);
  const mayNot = useReasonNotTo("configure", place, state.name);
  const why = place && state.name ? mayNot : "";
  const set = (name) => (value) => setState((before) => ({ ...before, [name]: value }));
  const setting = (name) => (value) =>
    setState((before) => ({ ...before, settings: { ...before.settings, [name]: value } }));
  const declare = async () => {
    await put(["exchanges", place, state.name], bodyOf(state));
    onDone(place, state.name);
  };
  let call = null;
  try {
    call = state.name && {
      method: "PUT", path: ["exchanges", place, state.name], body: bodyOf(state),
    };
  } catch {
    // Shown when the form is sent.
  }
  return html`<${Dialog} open=${open} title="Declare an exchange" onClose=${onClose} wide=${true}>
    <${Form} submit="Declare" onSubmit=${declare} onCancel=${onClose} why=${why}
      disabled=${!state.name}>
      <div class="form-row">
        <${Field} label="Name" name="name" value=${state.name} onInput=${set("name")}
          required=${true} autocomplete="off" spellcheck=${false} />
        <${VhostField} value=${place} onInput=${setPlace} />
        <${Field} label="Type" name="type" type="select" options=${types} value=${state.type}
          onInput=${set("type")} hint=${HINTS[state.type] ?? described} />
      </div>
      <div class="form-row">
        <${Field} label="Durable: still there after a restart" name="durable" type="checkbox"
          value=${state.durable} onInput=${set("durable")} />
        <${Field} label="Auto-delete: gone with its last binding" name="auto_delete"
          type="checkbox" value=${state.auto_delete} onInput=${set("auto_delete")} />
        <${Field} label="Internal: only other exchanges publish to it" name="internal"
          type="checkbox" value=${state.internal} onInput=${set("internal")} />
      </div>
      <div class="form-row">
        ${settingsOf(state.type).map(
          ([name, title, kind]) =>
            html`<${Field} key=${name} label=${title} name=${name}
              hint=${html`<code>${name}</code>`}
              inputmode=${kind === "number" ? "numeric" : undefined} autocomplete="off"
              value=${state.settings[name] ?? ""} onInput=${setting(name)} />`,
        )}
      </div>
      <${Field} label="More arguments, as JSON" name="more" type="textarea" rows="2"
        value=${state.more} onInput=${set("more")} placeholder="{}" spellcheck=${false} />
    <//>
    ${call &&
    html`<${Same} cli=${addExchange(place, state.name, call.body)} http=${call} />`}
  <//>`;
}
