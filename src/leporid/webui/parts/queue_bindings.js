/* The bindings that lead to a queue, and the form for one more. */

import { useData } from "../core/data.js";
import { html } from "../core/html.js";
import { BindForm } from "./bind_form.js";
import { BindingTable } from "./bindings.js";
import { Notice } from "./notice.js";

const EVERY_MS = 10_000;

/** @param {{vhost: string, name: string}} props of the queue. */
export function QueueBindings({ vhost, name }) {
  const path = ["queues", vhost, name, "bindings"];
  const { data, error, reload } = useData(path, {}, { every: EVERY_MS });
  return html`<div class="stack">
    ${error && html`<${Notice} kind="bad">${error.message}<//>`}
    ${data && html`<${BindingTable} bindings=${data} shows="source" onChange=${reload} />`}
    <section class="box">
      <h2>Bind to an exchange</h2>
      <${BindForm} vhost=${vhost} destination=${name} kind="q" onDone=${reload} />
    </section>
  </div>`;
}
