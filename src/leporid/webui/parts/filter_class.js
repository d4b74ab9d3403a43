/* A filter class: the sign of how it is, and the form that registers a version of it.

   Must not know what a filter may do. */

import { put } from "../core/api.js";
import { html, useEffect, useState } from "../core/html.js";
import { Dialog } from "./dialog.js";
import { Field, Form } from "./form.js";

const EXAMPLE = `class Filter:
    def match(self, message) -> bool:
        return message.headers.get("priority", 0) > 5
`;

const STATES = {
  idle: ["", "idle: it has no process"],
  running: ["good", "running"],
  waiting: ["bad", "waiting after a failure"],
};

/** @param {object} props status {state, error} as the API has it. */
export function ClassState({ status }) {
  const [kind, title] = STATES[status.state] ?? ["", status.state];
  return html`<span class=${`state ${kind}`} title=${title}>${status.state}</span>`;
}

/**
 * A dialog with the source of a class.
 *
 * @param {object} props
 * @param {boolean} props.open
 * @param {object} [props.of] the class that gets a newer version.
 * @param {function(string)} props.onDone
 * @param {function} props.onClose
 */
export function RegisterClass({ open, of, onDone, onClose }) {
  const [given, setGiven] = useState({});
  useEffect(() => {
    const version = of ? String(of.version + 1) : "";
    setGiven({
      name: of?.name ?? "",
      version,
      class: of?.class ?? "Filter",
      source: of?.source ?? EXAMPLE,
    });
  }, [open]);
  const set = (name) => (value) => setGiven((before) => ({ ...before, [name]: value }));
  const take = async (event) => {
    const file = event.target.files[0];
    if (file) {
      set("source")(await file.text());
    }
  };
  const save = async () => {
    const { name, version, class: className, source } = given;
    const query = { version: version || undefined, class: className || undefined };
    await put(["filter-classes", name], new Blob([source]), query);
    onDone(`Filter class ${name} is registered.`);
    onClose();
  };
  return html`<${Dialog} open=${open} wide
    title=${of ? `Newer version of ${of.name}` : "Register a filter class"} onClose=${onClose}>
    <${Form} onSubmit=${save} submit="Register" onCancel=${onClose}>
      <div class="form-row">
        ${!of &&
        html`<${Field} label="Name" name="name" value=${given.name} onInput=${set("name")}
          required autocomplete="off" spellcheck=${false} />`}
        <${Field} label="Version" name="version" value=${given.version}
          onInput=${set("version")} inputmode="numeric" placeholder="the next one" />
        <${Field} label="Class in the source" name="class" value=${given.class}
          onInput=${set("class")} spellcheck=${false} />
      </div>
      <div class="field">
        <label for="class-file">From a file</label>
        <input id="class-file" type="file" accept=".py,text/x-python" onChange=${take} />
      </div>
      <${Field} label="Source" name="source" type="textarea" value=${given.source} rows="14"
        onInput=${set("source")} spellcheck=${false} class="mono" required
        hint=${"It is loaded first, in a process that then ends; one that does not load is " +
        "refused."} />
    <//>
  <//>`;
}
