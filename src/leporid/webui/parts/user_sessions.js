/* Where a user has logged in by the form, and ending all of it.

   Must not know which page it is on. */

import { brokerNow } from "../core/clock.js";
import { remove } from "../core/api.js";
import { useData } from "../core/data.js";
import { age, moment } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { Button } from "./button.js";
import { Confirm } from "./confirm.js";
import { Grid } from "./grid.js";
import { Notice } from "./notice.js";

const EVERY_MS = 10_000;

const COLUMNS = [
  { name: "address", title: "From", cell: (row) => html`<span class="name">${row.address}</span>` },
  { name: "since_ms", title: "Since", cell: (row) => moment(row.since_ms) },
  { name: "last_ms", title: "Last request", cell: (row) => age(brokerNow() - row.last_ms) },
  { name: "expires_at_ms", title: "Ends at the latest", cell: (row) => moment(row.expires_at_ms) },
];

/** @param {object} props name of the user; own: whether it is who looks; why; onSaid(text). */
export function UserSessions({ name, own, why, onSaid }) {
  const path = ["users", name, "sessions"];
  const { data, error, reload } = useData(why ? null : path, null, { every: EVERY_MS });
  const [open, setOpen] = useState(false);
  const none = data?.length === 0 ? "There are none." : "";
  return html`<section class="box stack">
    <h2>Logins to this page</h2>
    ${why && html`<p class="soft">${why}</p>`}
    ${error && html`<${Notice} kind="bad">${error.message}<//>`}
    ${data &&
    html`<${Grid} rows=${data} columns=${COLUMNS} caption="Logins" prefix="logins-"
      empty=${html`<p class="soft">Not logged in by the form. A login with a name and a
        password is listed here.</p>`} />`}
    <${Button} kind="danger" why=${why || none} onClick=${() => setOpen(true)}
      >End all logins<//>
    <${Confirm} open=${open} title=${`End all logins of ${name}`} danger yes="End them"
      what=${`${name} has to log in again, everywhere${own ? "; so do you" : ""}. ` +
      "Connections over AMQP stay."}
      onClose=${() => setOpen(false)}
      onYes=${async () => {
        await remove(path);
        onSaid(`The logins of ${name} have ended.`);
        reload();
      }} />
  </section>`;
}
