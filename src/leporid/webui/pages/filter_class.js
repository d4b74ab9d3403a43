/* One filter class: how it is, who uses it, its source, a newer version, and deleting it. */

import { remove } from "../core/api.js";
import { command } from "../core/commands.js";
import { useData } from "../core/data.js";
import { bytes, count, duration, moment } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { go, href } from "../core/route.js";
import { reasonNot, useUser } from "../core/session.js";
import { Button } from "../parts/button.js";
import { Confirm } from "../parts/confirm.js";
import { Copy } from "../parts/copy.js";
import { Empty } from "../parts/empty.js";
import { ClassState, RegisterClass } from "../parts/filter_class.js";
import { Notice } from "../parts/notice.js";
import { useOutcome } from "../parts/outcome.js";
import { Page } from "../parts/page.js";

/** The page #/filter-classes/NAME. */
export default function FilterClass({ parts }) {
  const name = parts[1];
  const rights = reasonNot(useUser(), "administrator");
  const { data, error, reload } = useData(["filter-classes", name], null, { every: 5000 });
  const [open, setOpen] = useState("");
  const outcome = useOutcome();
  const close = () => setOpen("");
  const why =
    rights || (data?.configured ? "It stands in the configuration file; change it there." : "");
  const used = data?.used_by.length ? "Something uses it." : "";
  const actions = html`<${Button} why=${why} onClick=${() => setOpen("newer")}>Newer version<//>
    <${Button} kind="danger" why=${why || used} onClick=${() => setOpen("delete")}
      >Delete class<//>`;
  return html`<${Page} title=${`Filter class ${name}`}
    head=${html`Filter class <span class="name">${name}</span>`} actions=${data && actions}
    cli=${command("filter-classes show", [name])}
    http=${{ path: ["filter-classes", name] }}>
    ${outcome.shown}
    ${error &&
    (error.status === 404
      ? html`<${Empty} title=${`There is no filter class ${name}`}>
          <a href=${href(["filter-classes"])}>All of them</a><//>`
      : html`<${Notice} kind="bad">${error.message}<//>`)}
    ${data &&
    html`${data.error &&
      html`<${Notice} kind="warn">It failed on ${moment(data.failed_at * 1000)}${data.retry_seconds
          ? `, and is tried again in ${duration(data.retry_seconds * 1000)}`
          : ""}.
        <pre class="source">${data.error}</pre><//>`}
      <${Facts} found=${data} />
      <section class="box stack">
        <div class="row"><h2>Source</h2><${Copy} text=${data.source} /></div>
        <pre class="source" tabindex="0" aria-label="Source">${data.source}</pre>
      </section>
      <${RegisterClass} open=${open === "newer"} of=${data} onClose=${close}
        onDone=${(text) => {
          outcome.say(text);
          reload();
        }} />
      <${Confirm} open=${open === "delete"} title="Delete filter class" danger typed=${name}
        what="Bindings and consumers can no longer name it." onClose=${close}
        onYes=${async () => {
          await remove(["filter-classes", name]);
          go(["filter-classes"]);
        }} />`}
  <//>`;
}

function Facts({ found }) {
  const passed = found.judged ? `, ${count((100 * found.passed) / found.judged)} %` : "";
  return html`<section class="box">
    <dl class="key">
      <dt>State</dt><dd><${ClassState} status=${found} /></dd>
      <dt>Version</dt><dd>${found.version}</dd>
      <dt>Class</dt><dd><code>${found.class}</code>, ${bytes(found.source_bytes)} of source</dd>
      <dt>Waiting</dt><dd>${count(found.waiting)} messages</dd>
      <dt>Judged</dt>
      <dd>${count(found.judged)}, of which ${count(found.passed)} passed${passed}</dd>
      <dt>Failures</dt><dd>${count(found.failures)}</dd>
      <dt>Used by</dt>
      <dd>${found.used_by.length
        ? html`<ul class="plain">${found.used_by.map(
            (each, at) => html`<li key=${at} class="name">${usedBy(each)}</li>`,
          )}</ul>`
        : "nothing"}</dd>
    </dl>
  </section>`;
}

function usedBy(each) {
  return typeof each === "string" ? each : Object.values(each).join(" ");
}
