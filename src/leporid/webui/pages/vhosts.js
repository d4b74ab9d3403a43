/* Virtual hosts: the list, and adding one. */

import { put } from "../core/api.js";
import { html, useState } from "../core/html.js";
import { linesOf } from "../core/list_query.js";
import { href } from "../core/route.js";
import { reasonNot, useUser } from "../core/session.js";
import { Button } from "../parts/button.js";
import { countColumn, rateColumn } from "../parts/cells.js";
import { Dialog } from "../parts/dialog.js";
import { Empty } from "../parts/empty.js";
import { Field, Form } from "../parts/form.js";
import { List } from "../parts/list.js";
import { useOutcome } from "../parts/outcome.js";
import { Page } from "../parts/page.js";
import { TagLabels } from "../parts/tags.js";
import { VhostFields, vhostBody } from "../parts/vhost_fields.js";

const COLUMNS = [
  {
    name: "name",
    title: "Virtual host",
    sort: true,
    cell: (row) => html`<a class="name" href=${href(["vhosts", row.name])}>${row.name}</a>`,
  },
  { name: "description", title: "Description", sort: true, wide: true },
  {
    name: "tags",
    title: "Tags",
    wide: true,
    cell: (row) => html`<${TagLabels} tags=${row.tags} />`,
  },
  {
    name: "default_queue_type",
    title: "Default queue type",
    sort: true,
    wide: true,
    cell: (row) => (row.default_queue_type === "undefined" ? "–" : row.default_queue_type),
  },
  countColumn("messages_ready", "Ready", "Messages that wait for a consumer"),
  countColumn("messages_unacknowledged", "Unacked", "Messages that consumers have not settled"),
  { ...countColumn("messages", "Total"), wide: true },
  rateColumn("publish", "Publish", "Published by clients"),
  rateColumn("deliver_get", "Deliver", "Delivered to consumers, and got"),
  rateColumn("ack", "Ack", "Acknowledged by consumers"),
  {
    name: "state",
    title: "",
    label: "State",
    cell: (row) => html`
      ${row.tracing && html`<span class="badge">traced</span> `}
      ${row.metadata?.protected_from_deletion && html`<span class="badge">protected</span>`}`,
  },
];

const LIST = { path: ["vhosts"], sorted: "name" };

/** The page #/vhosts. */
export default function Vhosts({ query }) {
  const why = reasonNot(useUser(), "administrator");
  const [adding, setAdding] = useState(false);
  const [version, setVersion] = useState(0);
  const outcome = useOutcome();
  const add = html`<${Button} kind="main" why=${why} onClick=${() => setAdding(true)}
    >Add virtual host<//>`;
  return html`<${Page} title="Virtual hosts" actions=${add} 
    ...${linesOf("vhosts", LIST, query)}>
    ${outcome.shown}
    <${List} ...${LIST} columns=${COLUMNS} rowKey=${(row) => row.name}
      caption="Virtual hosts" version=${version}
      empty=${html`<${Empty} title="No virtual host that you may see">Ask an administrator for
        permissions in one.<//>`} />
    <${AddVhost} open=${adding} onClose=${() => setAdding(false)}
      onAdded=${(text) => {
        outcome.say(text);
        setVersion((before) => before + 1);
      }} />
  <//>`;
}

const NEW = { name: "", description: "", tags: "", default_queue_type: "" };

function AddVhost({ open, onClose, onAdded }) {
  const [given, setGiven] = useState(NEW);
  const close = () => {
    setGiven(NEW);
    onClose();
  };
  const save = async () => {
    await put(["vhosts", given.name], vhostBody(given));
    onAdded(`Virtual host ${given.name} is there, and you have all permissions in it.`);
    close();
  };
  return html`<${Dialog} open=${open} title="Add virtual host" onClose=${close}>
    <${Form} onSubmit=${save} submit="Add virtual host" onCancel=${close}>
      <${Field} label="Name" name="name" value=${given.name} required autocomplete="off"
        spellcheck=${false}
        onInput=${(name) => setGiven((before) => ({ ...before, name }))} />
      <${VhostFields} given=${given} onChange=${setGiven} />
    <//>
  <//>`;
}
