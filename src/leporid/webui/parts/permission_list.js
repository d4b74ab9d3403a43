/* The permissions of a user, or in a virtual host: a list, each to be changed.

   Must not know which page it is on. */

import { html, useState } from "../core/html.js";
import { href } from "../core/route.js";
import { Button } from "./button.js";
import { Empty } from "./empty.js";
import { Form } from "./form.js";
import { KnownName } from "./known_name.js";
import { List } from "./list.js";
import { PermissionDialog } from "./permission_form.js";

/**
 * @param {object} props
 * @param {{user?: string, vhost?: string}} props.of one of them.
 * @param {string} props.why why nothing can be changed.
 * @param {function(string)} props.onSaid
 */
export function PermissionList({ of, why, onSaid }) {
  const [open, setOpen] = useState(null);
  const [version, setVersion] = useState(0);
  const ofUser = of.user !== undefined;
  const path = ofUser ? ["users", of.user, "permissions"] : ["vhosts", of.vhost, "permissions"];
  const columns = [
    ofUser ? vhostColumn() : userColumn(),
    pattern("configure", "Configure"),
    pattern("write", "Write"),
    pattern("read", "Read"),
    {
      name: "change",
      title: "",
      align: "right",
      cell: (row) => html`<${Button} kind="quiet" why=${why}
        label=${`Change permissions of ${row.user} in ${row.vhost}`}
        onClick=${() => setOpen({ user: row.user, vhost: row.vhost, permission: row })}
        >Change<//>`,
    },
  ];
  return html`<section class="box stack">
    <h2>Permissions</h2>
    <${List} path=${path} columns=${columns} prefix="perm-" filterable=${false} version=${version}
      rowKey=${(row) => JSON.stringify([row.vhost, row.user])} caption="Permissions" every=${0}
      empty=${html`<${Empty} title="No permissions">${ofUser
        ? "Without them the user can enter no virtual host. Set some below."
        : "Nobody can enter this virtual host. Set some below."}<//>`} />
    <${Grant} of=${of} why=${why} onPick=${setOpen} />
    <${PermissionDialog} of=${open} why=${why} onClose=${() => setOpen(null)}
      onDone=${(text) => {
        onSaid(text);
        setVersion((before) => before + 1);
      }} />
  </section>`;
}

function vhostColumn() {
  return {
    name: "vhost",
    title: "Virtual host",
    sort: true,
    cell: (row) => html`<a class="name" href=${href(["vhosts", row.vhost])}>${row.vhost}</a>`,
  };
}

function userColumn() {
  return {
    name: "user",
    title: "User",
    sort: true,
    cell: (row) => html`<a class="name" href=${href(["users", row.user])}>${row.user}</a>`,
  };
}

function pattern(name, title) {
  return {
    name,
    title,
    sort: true,
    under: true,
    cell: (row) =>
      row[name] ? html`<code>${row[name]}</code>` : html`<span class="soft">nothing</span>`,
  };
}

/** A form that asks for the other end, then opens the dialog. */
function Grant({ of, why, onPick }) {
  const [other, setOther] = useState("");
  const ofUser = of.user !== undefined;
  const pick = () => {
    if (!other) {
      throw new Error(ofUser ? "Choose a virtual host." : "Choose a user.");
    }
    onPick({ ...of, ...(ofUser ? { vhost: other } : { user: other }) });
  };
  return html`<${Form} inline onSubmit=${pick} submit="Set permissions …" why=${why} kind="plain">
    <${KnownName} path=${[ofUser ? "vhosts" : "users"]} name="other" value=${other}
      label=${ofUser ? "In virtual host" : "Of user"} onInput=${setOther} />
  <//>`;
}
