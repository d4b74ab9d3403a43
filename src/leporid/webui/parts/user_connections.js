/* The connections of a user, and closing them all.

   Must not know which page it is on. */

import { remove } from "../core/api.js";
import { moment } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { href } from "../core/route.js";
import { reasonNot, useUser } from "../core/session.js";
import { Button } from "./button.js";
import { Confirm } from "./confirm.js";
import { Empty } from "./empty.js";
import { List } from "./list.js";

const COLUMNS = [
  {
    name: "name",
    title: "Connection",
    sort: true,
    cell: (row) => html`<a class="name" href=${href(["connections", row.name])}>${row.name}</a>`,
  },
  { name: "vhost", title: "Virtual host", sort: true },
  { name: "state", title: "State", sort: true },
  { name: "channels", title: "Channels", sort: true, align: "right" },
  {
    name: "connected_at",
    title: "Since",
    sort: true,
    cell: (row) => moment(row.connected_at),
  },
];

/** @param {object} props name of the user; onSaid(text). */
export function UserConnections({ name, onSaid }) {
  const asking = useUser();
  const why = asking?.name === name ? "" : reasonNot(asking, "administrator");
  const [open, setOpen] = useState(false);
  const [version, setVersion] = useState(0);
  return html`<section class="box stack">
    <h2>Connections</h2>
    <${List} path=${["connections", "username", name]} columns=${COLUMNS} prefix="conn-"
      filterable=${false} rowKey=${(row) => row.name} version=${version} caption="Connections"
      empty=${html`<${Empty} title="Not connected over AMQP">
        Which virtual hosts it may enter is above, and where clients connect to on the
        ${" "}<a href=${href([])}>overview</a>.<//>`} />
    <${Button} kind="danger" why=${why} onClick=${() => setOpen(true)}>Close all connections<//>
    <${Confirm} open=${open} title=${`Close all connections of ${name}`} danger
      what="Clients are told, and most connect again by themselves." yes="Close all"
      onClose=${() => setOpen(false)}
      onYes=${async () => {
        await remove(["connections", "username", name]);
        onSaid(`The connections of ${name} are closed.`);
        setVersion((before) => before + 1);
      }} />
  </section>`;
}
