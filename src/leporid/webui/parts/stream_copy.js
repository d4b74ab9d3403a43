/* "Copy as": a program that reads what the reader of the page sees, in several languages.
   Must not know the programs: they are stream_snippets. */

import { BROKER } from "../core/api.js";
import { html, useState } from "../core/html.js";
import { Copy } from "./copy.js";
import { snippetsOf } from "./stream_snippets.js";

/** @param {{vhost: string, name: string, info: object, partition: number, query: object}} props */
export function StreamCopy({ vhost, name, info, partition, query }) {
  const [language, setLanguage] = useState("pandas");
  const [whole, setWhole] = useState(true);
  const partitions = info.partitions.length;
  const from = /^\d+$/.test(query.from ?? "") ? Number(query.from) : null;
  const snippets = snippetsOf({
    origin: BROKER, vhost, stream: name, partitions, from,
    partition: whole && partitions > 1 && from === null ? null : partition,
    filter: query.filter ?? "", tags: query.tags ?? "", dialect: "jms",
  });
  const shown = snippets.find((one) => one.id === language);
  return html`<section class="box stack" aria-label="Copy as">
    <div class="row">
      <div class="switch" role="group" aria-label="Language">
        ${snippets.map((one) => html`<button type="button" key=${one.id}
          aria-pressed=${one.id === language ? "true" : "false"}
          onClick=${() => setLanguage(one.id)}>${one.title}</button>`)}
      </div>
      ${partitions > 1 && from === null && html`<label class="check-inline">
        <input type="checkbox" checked=${whole}
          onChange=${(event) => setWhole(event.target.checked)} />all partitions</label>`}
      <${Copy} text=${shown.text} label="Copy" />
    </div>
    <pre class="body" tabindex="0"><code>${shown.text}</code></pre>
    <p class="soft">
      ${shown.needs && html`Needs <code>${shown.needs}</code>. `}
      User and password are taken from <code>LEPORID_USER</code> and <code>LEPORID_PASSWORD</code>.
      ${" "}${from === null ? "It reads from the first message that is kept."
        : `It reads from offset ${from}, where this page stands.`}
      ${" "}${query.filter || query.tags ? "It has the filter of this page." : ""}
    </p>
  </section>`;
}
