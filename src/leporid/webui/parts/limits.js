/* Limits of a user or a virtual host: a number each, or none.

   Must not know what a limit counts. */

import { put, remove } from "../core/api.js";
import { html, useEffect, useState } from "../core/html.js";
import { Field, Form } from "./form.js";

/**
 * @param {object} props
 * @param {string[]} props.path the route, without the name of a limit.
 * @param {[string, string][]} props.limits names, and what they are called.
 * @param {Object<string, number>} props.values those that are set.
 * @param {string} props.why why nothing can be changed.
 * @param {function(string)} props.onDone
 */
export function Limits({ path, limits, values = {}, why, onDone }) {
  return html`<section class="box stack">
    <h2>Limits</h2>
    <div class="limits">
      ${limits.map(
        ([name, title]) => html`<${Limit} key=${name} path=${[...path, name]} name=${name}
          title=${title} value=${values[name]} why=${why} onDone=${onDone} />`,
      )}
    </div>
  </section>`;
}

function Limit({ path, name, title, value, why, onDone }) {
  const [text, setText] = useState("");
  useEffect(() => setText(value === undefined ? "" : String(value)), [value]);
  const save = async () => {
    if (text.trim() === "") {
      await remove(path);
      onDone(`${name}: no limit.`);
      return;
    }
    if (!/^-?\d{1,18}$/.test(text.trim())) {
      throw new Error("A limit is a whole number.");
    }
    await put(path, { value: Number(text) });
    onDone(`${name} is ${text}.`);
  };
  return html`<${Form} inline onSubmit=${save} submit="Set" kind="plain" why=${why}>
    <${Field} label=${html`${title} <code class="soft">${name}</code>`} name=${name} value=${text}
      onInput=${setText} inputmode="numeric" autocomplete="off" placeholder="no limit" />
  <//>`;
}
