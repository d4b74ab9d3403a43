/* A table of consumers: of a queue, a channel or a connection. */

import { count } from "../core/format.js";
import { html } from "../core/html.js";
import { href } from "../core/route.js";
import { Empty } from "./empty.js";
import { Grid } from "./grid.js";

const STATES = { up: "good", single_active: "good", waiting: "warn" };

function filters(row) {
  const given = Object.entries(row.arguments ?? {}).filter(([name]) => name.startsWith("x-filter"));
  return given.map(
    ([name, value]) =>
      html`<div key=${name}
        ><span class="soft">${name.slice(9)}:</span> <code>${String(value)}</code></div>`,
  );
}

const QUEUE = {
  name: "queue",
  title: "Queue",
  value: (row) => row.queue.name,
  cell: (row) =>
    html`<a class="name" href=${href(["queues", row.queue.vhost, row.queue.name])}>${row.queue
      .name}</a>`,
};

const CHANNEL = {
  name: "channel",
  title: "Channel",
  value: (row) => row.channel_details?.name,
  cell: (row) =>
    row.channel_details
      ? html`<a class="name" href=${href(["channels", row.channel_details.name])}>${row
          .channel_details.name}</a>`
      : "–",
};

const COMMON = [
  {
    name: "consumer_tag",
    title: "Consumer tag",
    under: true,
    cell: (row) => html`<span class="name">${row.consumer_tag}</span>`,
  },
  {
    name: "activity_status",
    title: "State",
    cell: ({ activity_status: status }) =>
      html`<span class=${`state ${STATES[status] ?? ""}`}>${status.replace("_", " ")}</span>`,
  },
  {
    name: "ack_required",
    title: "Acks",
    wide: true,
    value: (row) => String(row.ack_required),
    cell: (row) => (row.ack_required ? "manual" : "automatic"),
  },
  {
    name: "prefetch_count",
    title: "Prefetch",
    wide: true,
    align: "right",
    cell: (row) => (row.prefetch_count ? count(row.prefetch_count) : "no limit"),
  },
  {
    name: "exclusive",
    title: "Exclusive",
    wide: true,
    cell: (row) => (row.exclusive ? "yes" : "no"),
  },
  { name: "filter", title: "Filter", sort: false, cell: filters },
];

/** @param {object} props consumers: as the API lists them; of: "queue" or "channel", whose. */
export function ConsumerTable({ consumers, of = "queue" }) {
  const columns = [of === "queue" ? CHANNEL : QUEUE, ...COMMON];
  const empty =
    of === "queue"
      ? html`<${Empty} title="No consumers">
          Messages wait here until a client consumes from this queue.
        <//>`
      : html`<${Empty} title="No consumers">This channel consumes from no queue.<//>`;
  return html`<${Grid} rows=${consumers} columns=${columns} empty=${empty} caption="Consumers"
    rowKey=${(row) => `${row.channel_details?.name} ${row.consumer_tag} ${row.queue?.name}`} />`;
}
