/* Parameters of components in virtual hosts, and global parameters: lists, set, delete.

   Must not know what a parameter does. Operator policies and limits are shown here as RabbitMQ
   keeps them; they have pages of their own. */

import { put, remove } from "../core/api.js";
import { html, useState } from "../core/html.js";
import { linesOf } from "../core/list_query.js";
import { href, setQuery } from "../core/route.js";
import { reasonNot, useUser } from "../core/session.js";
import { useVhost } from "../core/vhost.js";
import { Button } from "../parts/button.js";
import { Confirm } from "../parts/confirm.js";
import { Dialog } from "../parts/dialog.js";
import { Empty } from "../parts/empty.js";
import { Field, Form } from "../parts/form.js";
import { List } from "../parts/list.js";
import { useOutcome } from "../parts/outcome.js";
import { Page } from "../parts/page.js";
import { Tabs } from "../parts/tabs.js";

const KINDS = [
  { id: "global", title: "Global" },
  { id: "components", title: "Of components" },
];

/** The page #/parameters. */
export default function Parameters({ query }) {
  const why = reasonNot(useUser(), "administrator");
  const ofAll = query.kind !== "components";
  const [open, setOpen] = useState(null);
  const [gone, setGone] = useState(null);
  const [version, setVersion] = useState(0);
  const outcome = useOutcome();
  const chosen = useVhost();
  const vhost = ofAll ? null : chosen;
  const list = {
    path: ofAll ? ["global-parameters"] : ["parameters"],
    query: vhost === null ? {} : { where: [`vhost=${vhost}`] },
  };
  const done = (text) => {
    outcome.say(text);
    setVersion((before) => before + 1);
  };
  const add = html`<${Button} kind="main" why=${why} onClick=${() => setOpen({ isNew: true })}
    >Set parameter<//>`;
  return html`<${Page} title="Parameters" actions=${ofAll && add}
    ...${linesOf("parameters", list, query, vhost, { given: ofAll ? ["--global"] : [] })}>
    ${outcome.shown}
    <${Tabs} tabs=${KINDS} current=${ofAll ? "global" : "components"} label="Kinds of parameters"
      onPick=${(id) => setQuery({ kind: id === "global" ? null : id, page: null, sort: null })} />
    <${List} key=${list.path[0]} ...${list} columns=${columnsOf(ofAll, why, setOpen, setGone)}
      caption="Parameters" every=${10_000} version=${version}
      rowKey=${(row) => JSON.stringify([row.component, row.vhost, row.name])}
      empty=${html`<${Empty} title="No parameters">${ofAll
        ? html`Any value under any name, for programs that look for it. ${add}`
        : html`<a href=${href(["operator-policies"])}>Operator policies</a> and
          ${" "}<a href=${href(["limits"])}>limits</a> of virtual hosts stand here.`}<//>`} />
    <${Editor} row=${open} onClose=${() => setOpen(null)} onDone=${done} />
    <${Confirm} open=${gone !== null} title="Delete parameter" danger typed=${gone?.name}
      what="Programs that look for it find nothing." onClose=${() => setGone(null)}
      onYes=${async () => {
        await remove(pathOf(gone));
        done(`Parameter ${gone.name} is deleted.`);
      }} />
  <//>`;
}

function pathOf({ component, vhost, name }) {
  return component === undefined
    ? ["global-parameters", name]
    : ["parameters", component, vhost, name];
}

function columnsOf(ofAll, why, setOpen, setGone) {
  const place = [
    { name: "component", title: "Component", sort: true },
    {
      name: "vhost",
      title: "Virtual host",
      sort: true,
      cell: (row) => html`<span class="name">${row.vhost}</span>`,
    },
  ];
  return [
    ...(ofAll ? [] : place),
    {
      name: "name",
      title: "Name",
      sort: true,
      cell: (row) => html`<span class="name">${row.name}</span>`,
    },
    {
      name: "value",
      title: "Value",
      cell: (row) => html`<code class="name">${JSON.stringify(row.value)}</code>`,
    },
    {
      name: "change",
      title: "",
      align: "right",
      cell: (row) => html`<${Button} kind="quiet" why=${why} label=${`Change ${row.name}`}
          onClick=${() => setOpen(row)}>Change<//>
        <${Button} kind="quiet" why=${why} label=${`Delete ${row.name}`}
          onClick=${() => setGone(row)}>Delete<//>`,
    },
  ];
}

function Editor({ row, onClose, onDone }) {
  const [changed, setChanged] = useState({});
  if (row === null) {
    return null;
  }
  const before = row.isNew ? "" : JSON.stringify(row.value, null, 2);
  const given = { name: row.name ?? "", text: before, ...changed };
  const set = (name) => (value) => setChanged((now) => ({ ...now, [name]: value }));
  const close = () => {
    setChanged({});
    onClose();
  };
  const save = async () => {
    let value;
    try {
      value = JSON.parse(given.text);
    } catch (error) {
      throw new Error(`The value is not JSON: ${error.message}. A text stands in double quotes.`);
    }
    const { component, vhost } = row;
    const body = component === undefined ? {} : { component, vhost };
    await put(pathOf({ component, vhost, name: given.name }), { ...body, name: given.name, value });
    onDone(`Parameter ${given.name} is set.`);
    close();
  };
  return html`<${Dialog} open title="Set parameter" onClose=${close}>
    <${Form} onSubmit=${save} submit="Set parameter" onCancel=${close}>
      ${row.isNew
        ? html`<${Field} label="Name" name="name" value=${given.name} onInput=${set("name")}
            required autocomplete="off" />`
        : html`<p>Parameter <strong class="name">${row.name}</strong></p>`}
      <${Field} label="Value" name="value" type="textarea" value=${given.text} class="mono"
        onInput=${set("text")} required spellcheck=${false}
        hint="JSON: a text in double quotes, a number, a list or an object." />
    <//>
  <//>`;
}
