/* Topic permissions of a user, or in a virtual host: which routing keys may be used.

   Must not know which page it is on. */

import { put, remove } from "../core/api.js";
import { html, useState } from "../core/html.js";
import { Button } from "./button.js";
import { Confirm } from "./confirm.js";
import { Dialog } from "./dialog.js";
import { Field, Form } from "./form.js";
import { KnownName } from "./known_name.js";
import { List } from "./list.js";

const NEW = { user: "", vhost: "/", exchange: "amq.topic", write: "", read: "" };

/**
 * @param {object} props
 * @param {{user?: string, vhost?: string}} props.of one of them.
 * @param {string} props.why why nothing can be changed.
 * @param {function(string)} props.onSaid
 */
export function TopicPermissions({ of, why, onSaid }) {
  const [open, setOpen] = useState(null);
  const [gone, setGone] = useState(null);
  const [version, setVersion] = useState(0);
  const ofUser = of.user !== undefined;
  const path = [...(ofUser ? ["users", of.user] : ["vhosts", of.vhost]), "topic-permissions"];
  const done = (text) => {
    onSaid(text);
    setVersion((before) => before + 1);
  };
  const columns = [
    ofUser
      ? { name: "vhost", title: "Virtual host", sort: true, cell: (row) => named(row.vhost) }
      : { name: "user", title: "User", sort: true, cell: (row) => named(row.user) },
    { name: "exchange", title: "Exchange", sort: true, cell: (row) => named(row.exchange) },
    { name: "write", title: "Publish with", under: true, cell: (row) => code(row.write) },
    { name: "read", title: "Bind with", under: true, cell: (row) => code(row.read) },
    {
      name: "change",
      title: "",
      align: "right",
      cell: (row) => html`<${Button} kind="quiet" why=${why}
          label=${`Change topic permissions on ${row.exchange}`}
          onClick=${() => setOpen(row)}>Change<//>
        <${Button} kind="quiet" why=${why} label=${`Drop topic permissions on ${row.exchange}`}
          onClick=${() => setGone(row)}>Drop<//>`,
    },
  ];
  return html`<section class="box stack">
    <h2>Topic permissions</h2>
    <p class="soft">With which routing keys a topic exchange may be used. An exchange without an
      entry takes all keys.</p>
    <${List} path=${path} columns=${columns} prefix="topic-" filterable=${false} every=${0}
      version=${version} caption="Topic permissions"
      rowKey=${(row) => JSON.stringify([row.vhost, row.user, row.exchange])}
      empty=${html`<p class="soft">None: all routing keys may be used.</p>`} />
    <${Button} why=${why} onClick=${() => setOpen({ ...NEW, ...of })}>Add topic permission<//>
    <${Editor} row=${open} of=${of} onClose=${() => setOpen(null)} onDone=${done} />
    <${Confirm} open=${gone !== null} title="Drop topic permissions" yes="Drop"
      what="Every routing key of this exchange may be used then." danger
      onClose=${() => setGone(null)}
      onYes=${async () => {
        await remove(["topic-permissions", gone.vhost, gone.user, gone.exchange]);
        done("The topic permissions are dropped.");
      }} />
  </section>`;
}

function named(text) {
  return html`<span class="name">${text}</span>`;
}

function code(text) {
  return text ? html`<code>${text}</code>` : html`<span class="soft">nothing</span>`;
}

function Editor({ row, of, onClose, onDone }) {
  const [changed, setChanged] = useState({});
  if (row === null) {
    return null;
  }
  const given = { ...row, ...changed };
  const set = (name) => (value) => setChanged((before) => ({ ...before, [name]: value }));
  const close = () => {
    setChanged({});
    onClose();
  };
  const save = async () => {
    const { user, vhost, exchange, write, read } = given;
    await put(["topic-permissions", vhost, user], { exchange, write, read });
    onDone(`Topic permissions of ${user} on ${exchange} are set.`);
    close();
  };
  const fixed = of.user !== undefined ? "vhost" : "user";
  return html`<${Dialog} open title="Topic permission" onClose=${close}>
    <${Form} onSubmit=${save} submit="Set topic permission" onCancel=${close}>
      <${KnownName} path=${[`${fixed}s`]} name=${fixed} required value=${given[fixed]}
        label=${fixed === "vhost" ? "Virtual host" : "User"} onInput=${set(fixed)} />
      <${KnownName} path=${["exchanges", given.vhost]} query=${{ where: "type=topic" }} required
        label="Exchange" name="exchange" value=${given.exchange} onInput=${set("exchange")} />
      <${Field} label="Publish with keys" name="write" value=${given.write}
        onInput=${set("write")} spellcheck=${false}
        hint=${html`A pattern; <code>{username}</code> and <code>{vhost}</code> stand for the
          names.`} />
      <${Field} label="Bind with keys" name="read" value=${given.read} onInput=${set("read")}
        spellcheck=${false} hint="A pattern, likewise." />
    <//>
  <//>`;
}
