/* Backups: those that there are, and making one while the broker runs. */

import { put } from "../core/api.js";
import { useData } from "../core/data.js";
import { bytes, count, moment } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { reasonNot, useUser } from "../core/session.js";
import { Empty } from "../parts/empty.js";
import { Field, Form } from "../parts/form.js";
import { Grid } from "../parts/grid.js";
import { Notice } from "../parts/notice.js";
import { useOutcome } from "../parts/outcome.js";
import { Page } from "../parts/page.js";

const COLUMNS = [
  { name: "name", title: "Name", cell: (row) => html`<span class="name">${row.name}</span>` },
  { name: "made_at", title: "Made", cell: (row) => moment(row.made_at) },
  { name: "version", title: "By version" },
  { name: "bytes", title: "Size", align: "right", cell: (row) => bytes(row.bytes) },
  { name: "files", title: "Files", align: "right", cell: (row) => count(row.files) },
  {
    name: "directory",
    title: "Directory",
    cell: (row) => html`<code class="name">${row.directory}</code>`,
  },
];

/** The page #/backups. */
export default function Backups() {
  const why = reasonNot(useUser(), "administrator");
  const { data, error, reload } = useData(["backups"]);
  const [name, setName] = useState(today);
  const outcome = useOutcome();
  const make = async () => {
    outcome.say("");
    const found = await put(["backups", name]);
    outcome.say(`Backup ${name} is made: ${bytes(found.bytes)} in ${found.directory}.`);
    reload();
  };
  return html`<${Page} title="Backups" cli=${[`leporid backup ${name || "NAME"}`]}
    http=${[{ path: ["backups"] }, { method: "PUT", path: ["backups", name || "NAME"] }]}>
    <p class="soft">A copy of all that is on disk, of one moment, made beside running traffic.
      It has every message that was confirmed before. The command
      ${" "}<code>leporid restore</code> makes a data directory of it.</p>
    ${outcome.shown} ${error && html`<${Notice} kind="bad">${error.message}<//>`}
    <section class="box">
      <${Form} inline onSubmit=${make} submit="Make a backup" why=${why}>
        <${Field} label="Name" name="name" size="30" value=${name} onInput=${setName} required
          autocomplete="off" spellcheck=${false} />
      <//>
    </section>
    ${data &&
    html`<${Grid} rows=${data} columns=${COLUMNS} caption="Backups" prefix=""
      rowKey=${(row) => row.name}
      empty=${html`<${Empty} title="No backups yet">Make one above, or with
        ${" "}<code>leporid backup NAME</code>. They stand where the setting
        ${" "}<code>backup_dir</code> says.<//>`} />`}
  <//>`;
}

function today() {
  return `backup-${moment(Date.now()).replace(" ", "-").replaceAll(":", "")}`;
}
