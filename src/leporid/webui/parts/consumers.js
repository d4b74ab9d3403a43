/* Consumers of a queue, and of a channel, as lists that the broker pages. */

import { cat } from "../core/commands.js";
import { count } from "../core/format.js";
import { html } from "../core/html.js";
import { linesOf } from "../core/list_query.js";
import { href } from "../core/route.js";
import { Empty } from "./empty.js";
import { List } from "./list.js";

const SELECTS = /^x-(?:filter-|(?=group$))/;
const STATES = { up: "good", single_active: "good", waiting: "warn" };

/** What a consumer selects by, and the group that it reads with. */
function selection(row) {
  const given = Object.entries(row.arguments ?? {}).filter(([name]) => SELECTS.test(name));
  return given.map(
    ([name, value]) =>
      html`<div key=${name}
        ><span class="soft">${name.replace(SELECTS, "")}:</span>
        ${" "}<code>${String(value)}</code></div>`,
  );
}

const QUEUE = {
  name: "queue",
  title: "Queue",
  sort: "queue.name",
  cell: (row) =>
    html`<a class="name" href=${href(["queues", row.queue.vhost, row.queue.name])}>${row.queue
      .name}</a>`,
};

const CHANNEL = {
  name: "channel",
  title: "Channel",
  sort: "channel_details.name",
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
    sort: true,
    under: true,
    cell: (row) => html`<span class="name">${row.consumer_tag}</span>`,
  },
  {
    name: "activity_status",
    title: "State",
    sort: true,
    cell: ({ activity_status: status }) =>
      html`<span class=${`state ${STATES[status] ?? ""}`}>${status.replace("_", " ")}</span>`,
  },
  {
    name: "ack_required",
    title: "Acks",
    sort: true,
    wide: true,
    cell: (row) => (row.ack_required ? "manual" : "automatic"),
  },
  {
    name: "prefetch_count",
    title: "Prefetch",
    sort: true,
    wide: true,
    align: "right",
    cell: (row) => (row.prefetch_count ? count(row.prefetch_count) : "no limit"),
  },
  {
    name: "exclusive",
    title: "Exclusive",
    sort: true,
    wide: true,
    cell: (row) => (row.exclusive ? "yes" : "no"),
  },
  { name: "filter", title: "Filter, group", sort: false, cell: selection },
];

function listOf(vhost, queue) {
  return { path: ["consumers", vhost], query: { queue }, prefix: "consumers-" };
}

/** The lines that list what `QueueConsumers` does. */
export function consumerLines(vhost, queue, query) {
  const conditions = [`queue.name=${queue}`];
  return linesOf("consumers", listOf(vhost, queue), query, vhost, { conditions });
}

/** @param {{vhost: string, queue: string, isStream?: boolean}} props whose; the list's state is in
 *   the address. */
export function QueueConsumers({ vhost, queue, isStream = false }) {
  const columns = [CHANNEL, ...COMMON];
  return html`<${List} ...${listOf(vhost, queue)} columns=${columns}
    caption="Consumers" search="Filter by tag"
    rowKey=${(row) => `${row.channel_details?.name} ${row.consumer_tag}`}
    empty=${html`<${Empty} title="No consumers">
      ${isStream
        ? "The stream keeps its messages for whoever comes. Read them with"
        : "Messages wait here until a client consumes from this queue. Look at them with"}
      ${" "}<code>${cat(isStream ? "stream" : "queue", vhost, queue)}</code>, which takes none.
    <//>`} />`;
}

/** @param {{vhost: string, channel: string}} props whose. */
export function ChannelConsumers({ vhost, channel }) {
  const query = { where: [`channel_details.name=${channel}`] };
  return html`<${List} path=${["consumers", vhost]} query=${query} columns=${[QUEUE, ...COMMON]}
    caption="Consumers" search="Filter by tag"
    rowKey=${(row) => `${row.consumer_tag} ${row.queue.name}`}
    empty=${html`<${Empty} title="No consumers">This channel consumes from no queue.<//>`} />`;
}
