/* Definitions: everything as one document, out, and in after its difference was looked at.

   Must not read a document: the broker says what it would change, by a dry run. Invariant: what is
   imported is the file whose difference is shown. */

import { get, post, url } from "../core/api.js";
import { command, inVhost } from "../core/commands.js";
import { bytes, count, counted } from "../core/format.js";
import { html, useEffect, useRef, useState } from "../core/html.js";
import { setQuery } from "../core/route.js";
import { reasonNot, useUser } from "../core/session.js";
import { useData } from "../core/data.js";
import { Button } from "../parts/button.js";
import { Confirm } from "../parts/confirm.js";
import { DifferenceTable, changedCount, conflictCount } from "../parts/difference.js";
import { Field } from "../parts/form.js";
import { Notice } from "../parts/notice.js";
import { Page } from "../parts/page.js";

const FILE_BYTES_MAX = 64 * 1024 * 1024;

/** The page #/definitions; `?vhost=NAME` is about one virtual host. */
export default function Definitions({ query }) {
  const why = reasonNot(useUser(), "administrator");
  const vhost = query.vhost ?? null;
  const path = vhost === null ? ["definitions"] : ["definitions", vhost];
  const line = (verb, ...given) => command(`definitions ${verb}`, ["all.json"], ...given,
    vhost !== null && inVhost(vhost));
  return html`<${Page} title="Definitions"
    cli=${[line("export"), line("import", "--dry-run")]}
    http=${[{ path }, { method: "POST", path, query: { dry_run: "true" }, file: "all.json" }]}>
    <p class="soft">Virtual hosts, users, permissions, policies, exchanges, queues and bindings as
      one JSON document, which RabbitMQ reads and writes too. Messages are not in it.</p>
    <div class="scope"><${Scope} vhost=${vhost} /></div>
    <div class="columns">
      <${Export} path=${path} vhost=${vhost} why=${why} />
      <${Import} key=${JSON.stringify(path)} path=${path} vhost=${vhost} why=${why} />
    </div>
  <//>`;
}

function Scope({ vhost }) {
  const { data } = useData(["vhosts"], { page: 1, page_size: 500, columns: "name" });
  const names = (data?.items ?? []).map((each) => each.name);
  const shown = vhost === null || names.includes(vhost) ? names : [vhost, ...names];
  return html`<${Field} label="About" name="scope" type="select"
    value=${vhost === null ? "all" : `vhost ${vhost}`}
    options=${[
      { value: "all", label: "the whole broker" },
      ...shown.map((name) => ({ value: `vhost ${name}`, label: `virtual host ${name}` })),
    ]}
    onInput=${(value) => setQuery({ vhost: value === "all" ? null : value.slice(6) })} />`;
}

function Export({ path, vhost, why }) {
  const [error, setError] = useState(null);
  const file = vhost === null ? "leporid.json" : `leporid-${fileName(vhost)}.json`;
  // A link would show a refusal as a page; so the session is looked at first.
  const save = async () => {
    setError(null);
    try {
      await get(["whoami"]);
      const link = document.createElement("a");
      link.href = url(path, { download: file });
      link.download = file;
      link.click();
    } catch (refused) {
      setError(refused);
    }
  };
  return html`<section class="box stack">
    <h2>Export</h2>
    <p>${vhost === null
      ? "All that the broker keeps but messages, with the hashes of passwords."
      : "What is in this virtual host; it can be imported into another one."}</p>
    ${error && html`<${Notice} kind="bad">${error.message}<//>`}
    <div><${Button} kind="main" why=${why} onClick=${save}>Download ${file}<//></div>
  </section>`;
}

function fileName(text) {
  return text.replace(/[^A-Za-z0-9_.-]+/g, "_").replace(/^[_.]+|_+$/g, "") || "vhost";
}

function Import({ path, vhost, why }) {
  const [text, setText] = useState("");
  const [file, setFile] = useState(null);
  const [found, setFound] = useState(NOTHING);
  const [asking, setAsking] = useState(false);
  const chosen = useRef(null);
  const document = file ?? (text.trim() ? new Blob([text]) : null);
  useEffect(() => setFound(NOTHING), [file, text]);
  const look = async () => {
    setFound(NOTHING);
    try {
      if (document.size > FILE_BYTES_MAX) {
        throw new Error(`The document has ${bytes(document.size)}; 64 MiB are allowed.`);
      }
      const difference = await post(path, document, { dry_run: "true" });
      setFound({ difference, document, error: null, done: null });
    } catch (error) {
      setFound({ ...NOTHING, error });
    }
  };
  const send = async () => {
    const left = await post(path, found.document);
    setFound({ ...NOTHING, done: { left } });
  };
  const conflicts = found.difference ? conflictCount(found.difference) : 0;
  const changes = found.difference ? changedCount(found.difference) : 0;
  return html`<section class="box stack">
    <h2>Import</h2>
    <p>First the broker says what would change. What can be done is done together, or none of it
      if one part is refused. Queues and exchanges that are there otherwise are conflicts: they stay
      as they are, and are named. What is not in the document stays, too.</p>
    <div class="field">
      <label for="definitions-file">File</label>
      <input id="definitions-file" type="file" accept=".json,application/json" ref=${chosen}
        onChange=${(event) => setFile(event.target.files[0] ?? null)} />
    </div>
    ${file === null &&
    html`<${Field} label="Or the document itself" name="document" type="textarea" value=${text}
      onInput=${setText} spellcheck=${false} placeholder='{"queues": [ … ]}' />`}
    <div class="row">
      <${Button} kind="main" why=${why} disabled=${document === null} onClick=${look}
        >Show what would change<//>
      ${file && html`<${Button} kind="quiet" onClick=${() => {
        chosen.current.value = "";
        setFile(null);
      }}>Take another document<//>`}
    </div>
    ${found.error && html`<${Notice} kind="bad">${found.error.message}<//>`}
    ${found.done && html`<${Done} left=${found.done.left} />`}
    ${found.difference &&
    html`<${DifferenceTable} difference=${found.difference} />
      <div class="row">
        <${Button} kind="main" why=${why} disabled=${changes === 0}
          onClick=${() => setAsking(true)}>Import ${counted(changes, "change")} …<//>
        ${conflicts > 0 && html`<span class="soft">${counted(conflicts, "conflict")}
          ${conflicts === 1 ? " stays" : " stay"} as ${conflicts === 1 ? "it is" : "they are"}.
        </span>`}
        ${changes === 0 && html`<span class="soft">There is nothing to import.</span>`}
      </div>
      <${Confirm} open=${asking} title="Import definitions" yes="Import"
        what=${`${counted(changes, "definition")} ${changes === 1 ? "is" : "are"} added or ` +
        `changed${vhost === null ? "" : ` in virtual host ${vhost}`}.`}
        onYes=${send} onClose=${() => setAsking(false)} />`}
  </section>`;
}

const NOTHING = { difference: null, document: null, error: null, done: null };

/** What the broker has said of an import: nothing, or what is not in force. */
function Done({ left }) {
  if (left === null) {
    return html`<${Notice} kind="good">All of the document is in force.<//>`;
  }
  return html`<${Notice} kind="warn">It is imported. ${count(left.ignored_count)} of its definitions
    have no effect, or are there otherwise and stay:<//>
    <${DifferenceTable} difference=${left} onlyLeft />`;
}
