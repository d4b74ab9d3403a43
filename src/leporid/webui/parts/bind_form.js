/* The form that binds a queue or an exchange, from either end. */

import { objectIn } from "../core/arguments.js";
import { post } from "../core/api.js";
import { addBinding } from "../core/commands.js";
import { html, useState } from "../core/html.js";
import { exchangeSegment } from "../core/route.js";
import { useReasonNotTo } from "../core/session.js";
import { Field, Form } from "./form.js";
import { Same } from "./page.js";

const KINDS = [
  { value: "q", label: "a queue" },
  { value: "e", label: "an exchange" },
];

function lineOf({ path, body }) {
  const [, vhost, , source, kind, destination] = path;
  return addBinding(vhost, source, kind, destination, body);
}

/**
 * @param {object} props
 * @param {string} props.vhost
 * @param {string} [props.source] the exchange; without it, it is asked for.
 * @param {string} [props.destination] the other end; without it, it is asked for.
 * @param {"q"|"e"} [props.kind] what the destination is.
 * @param {function} props.onDone
 */
export function BindForm({ vhost, source, destination, kind, onDone }) {
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const [toKind, setToKind] = useState("q");
  const [key, setKey] = useState("");
  const [sql, setSql] = useState("");
  const [tags, setTags] = useState("");
  const [more, setMore] = useState("");
  const path = [
    "bindings", vhost, "e", exchangeSegment(source ?? from), kind ?? toKind, destination ?? to,
  ];
  const bodyOf = () => ({
    routing_key: key,
    arguments: {
      ...objectIn("Arguments", more),
      ...(sql.trim() ? { "x-filter-sql": sql } : {}),
      ...(tags.trim() ? { "x-filter-tags": tags } : {}),
    },
  });
  const bind = async () => {
    await post(path, bodyOf());
    [setKey, setSql, setTags, setMore].forEach((set) => set(""));
    onDone?.();
  };
  let call = null;
  try {
    call = { method: "POST", path, body: bodyOf() };
  } catch {
    // Shown when the form is sent.
  }
  const mayNotRead = useReasonNotTo("read", vhost, source ?? from);
  const mayNotWrite = useReasonNotTo("write", vhost, destination ?? to);
  // An end that is still to be typed is no reason yet.
  const why = ((source ?? from) && mayNotRead) || ((destination ?? to) && mayNotWrite) || "";
  const ready = Boolean((source ?? from) && (destination ?? to));
  return html`<${Form} submit="Bind" onSubmit=${bind} why=${why} disabled=${!ready}>
      <div class="form-row">
        ${source === undefined &&
        html`<${Field} label="From the exchange" name="source" value=${from} onInput=${setFrom}
          required=${true} spellcheck=${false} autocomplete="off" />`}
        ${destination === undefined &&
        html`<${Field} label="To" name="kind" type="select" options=${KINDS} value=${toKind}
            onInput=${setToKind} />
          <${Field} label="Name" name="destination" value=${to} onInput=${setTo}
            required=${true} spellcheck=${false} autocomplete="off" />`}
        <${Field} label="Routing key" name="routing_key" value=${key} onInput=${setKey}
          spellcheck=${false} autocomplete="off" />
        <${Field} label="Filter (SQL)" name="sql" value=${sql} onInput=${setSql}
          placeholder="region = 'eu'" spellcheck=${false} autocomplete="off" />
        <${Field} label="Filter by tags" name="tags" value=${tags} onInput=${setTags}
          placeholder="A || B" spellcheck=${false} autocomplete="off" />
      </div>
      <${Field} label="More arguments, as JSON" name="arguments" type="textarea" rows="2"
        value=${more} onInput=${setMore} placeholder="{}" spellcheck=${false} />
    <//>
    ${ready && call && html`<${Same} cli=${lineOf(call)} http=${call} />`}`;
}
