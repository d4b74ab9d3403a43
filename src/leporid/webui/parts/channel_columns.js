/* The columns of lists of channels. */

import { count } from "../core/format.js";
import { html } from "../core/html.js";
import { href } from "../core/route.js";
import { countColumn, rateColumn, vhostColumn } from "./cells.js";

function mode(row) {
  const modes = [row.confirm && "confirms", row.transactional && "transactions"].filter(Boolean);
  return modes.length ? modes.join(", ") : html`<span class="soft">–</span>`;
}

function prefetch(row) {
  const parts = [
    row.prefetch_count && `${count(row.prefetch_count)} each`,
    row.global_prefetch_count && `${count(row.global_prefetch_count)} in all`,
  ].filter(Boolean);
  return parts.length ? parts.join(", ") : "no limit";
}

/** @param {object} options vhost or null; ofConnection: all are of one, which need not be said. */
export function channelColumns({ vhost = "", ofConnection = false } = {}) {
  return [
    {
      name: "name",
      title: "Channel",
      sort: ofConnection ? "number" : "name",
      cell: (row) =>
        html`<a class=${ofConnection ? "name" : "name ends"} href=${href(["channels", row.name])}
          >${ofConnection ? `Channel ${row.number}` : row.name}</a>`,
    },
    ...(ofConnection ? [] : vhostColumn(vhost)),
    ...(ofConnection
      ? []
      : [{
          name: "user", title: "User", sort: true, under: true,
          cell: (row) => html`<span class="name">${row.user}</span>`,
        }]),
    { name: "mode", title: "Mode", wide: true, cell: mode },
    {
      name: "prefetch_count", title: "Prefetch", sort: true, align: "right", wide: true,
      cell: prefetch,
    },
    { ...countColumn("consumer_count", "Consumers"), wide: true },
    countColumn("messages_unacknowledged", "Unacked", "Delivered and not settled"),
    {
      ...countColumn("messages_unconfirmed", "Unconfirmed", "Published and not confirmed"),
      wide: true,
    },
    rateColumn("publish", "Publish"),
    rateColumn("deliver_get", "Deliver"),
    rateColumn("ack", "Ack"),
  ];
}
