/* The bindings that lead to a queue, and the form for one more. */

import { html, useState } from "../core/html.js";
import { BindForm } from "./bind_form.js";
import { BindingList, bindingLines } from "./bindings.js";

function listOf(vhost, name) {
  return { path: ["queues", vhost, name, "bindings"] };
}

/** The lines that list what `QueueBindings` does. */
export function queueBindingLines(vhost, name, query) {
  const ends = { destination: name, destination_type: "queue" };
  return bindingLines(listOf(vhost, name), ends, query, vhost);
}

/** @param {{vhost: string, name: string}} props of the queue. */
export function QueueBindings({ vhost, name }) {
  const [version, setVersion] = useState(0);
  const changed = () => setVersion((before) => before + 1);
  return html`<div class="stack">
    <${BindingList} ...${listOf(vhost, name)} shows="source" version=${version}
      onChange=${changed} />
    <section class="box">
      <h2>Bind to an exchange</h2>
      <${BindForm} vhost=${vhost} destination=${name} kind="q" onDone=${changed} />
    </section>
  </div>`;
}
