/* Streams, named readers and groups of the virtual hosts that the user sees, as lists.
   Must not know what is in a stream: that is pages/stream.js. */

import { brokerNow } from "../core/clock.js";
import { html } from "../core/html.js";
import { linesOf } from "../core/list_query.js";
import { href, setQuery } from "../core/route.js";
import { age, bytes, count, duration } from "../core/format.js";
import { useVhost } from "../core/vhost.js";
import { Page } from "../parts/page.js";
import { List } from "../parts/list.js";
import { Empty } from "../parts/empty.js";
import { Tabs } from "../parts/tabs.js";

const SHOWS = {
  streams: "Streams",
  readers: "Named readers",
  groups: "Groups",
};

const streamLink = (row, name) => html`
  <a class="name" href=${href(["streams", row.vhost, name])}>${name}</a>`;
const named = (text) => html`<span class="name">${text}</span>`;
const VHOST = {
  name: "vhost", title: "Virtual host", sort: "vhost", under: true, cell: (row) => named(row.vhost),
};
const STREAM = {
  name: "stream", title: "Stream", sort: "stream", under: true,
  cell: (row) => streamLink(row, row.stream),
};

const COLUMNS = {
  streams: [
    { name: "name", title: "Stream", sort: "name", cell: (row) => streamLink(row, row.name) },
    VHOST,
    {
      name: "state", title: "State", sort: "state", wide: true,
      cell: (row) => html`<span class=${row.state === "paused" ? "warn" : ""}>${row.state}</span>`,
    },
    number("messages", "Messages", count),
    number("bytes", "Size", bytes),
    { ...number("first", "First", count), wide: true },
    number("end", "End", count),
    number("first_timestamp_ms", "Oldest", (ms) => (ms ? age(brokerNow() - ms) : "")),
    number("last_timestamp_ms", "Newest", (ms) => (ms ? age(brokerNow() - ms) : "")),
    number("consumers", "Consumers", count),
    number("readers", "Readers", count),
  ],
  readers: [
    { name: "reader", title: "Reader", sort: "reader", cell: (row) => named(row.reader) },
    STREAM,
    VHOST,
    number("offset", "Read up to", count),
    number("end", "End", count),
    number("lag", "Lag", count),
    number("lag_ms", "Waits for", (ms) => (ms === null ? "" : duration(ms))),
    number("skipped_messages", "Missed", count),
  ],
  groups: [
    { name: "group", title: "Group", sort: "group", cell: (row) => named(row.group) },
    STREAM,
    VHOST,
    number("members", "Members", count),
    number("partitions", "Partitions", count),
    number("retrying", "Retrying", count),
    number("used_ms", "Used", (ms) => (ms ? age(brokerNow() - ms) : "")),
  ],
};

const FILTERS = {
  streams: [
    {
      name: "state",
      title: "State",
      options: ["running", "paused"].map((value) => ({ value, label: value })),
    },
  ],
  readers: [
    {
      name: "with",
      title: "Lag",
      options: [
        { value: "lag", label: "some", where: "lag>0" },
        { value: "missed", label: "messages missed", where: "skipped_messages>0" },
      ],
    },
  ],
  groups: [],
};

const EMPTY = {
  streams: html`<${Empty} title="No streams yet">
    A stream keeps its messages for every reader. Make one with
    ${" "}<code>leporid streams add NAME</code>,
    or declare a queue with the argument <code>x-queue-type: stream</code>.<//>`,
  readers: html`<${Empty} title="No named readers yet">
    A consumer of a stream with the argument <code>x-reader</code> stores how far it has read.<//>`,
  groups: html`<${Empty} title="No groups yet">
    Consumers with the same argument <code>x-group</code> share the partitions of a stream.<//>`,
};

function number(name, title, format) {
  return { name, title, sort: name, align: "right", cell: (row) => format(row[name]) };
}

const keyOf = (row) =>
  JSON.stringify([row.vhost, row.stream ?? row.name, row.reader ?? row.group]);

export default function Streams({ query }) {
  const shows = SHOWS[query.show] ? query.show : "streams";
  const every = [shows];
  const vhost = useVhost();
  // Of streams there is no list by virtual host: its route names all partitions as one.
  const ofVhost = vhost !== null && shows !== "streams";
  const path = ofVhost ? [...every, vhost] : every;
  const narrowed = vhost !== null && shows === "streams" ? { where: [`vhost=${vhost}`] } : {};
  const list = { path, query: narrowed, filters: FILTERS[shows] };
  const tabs = Object.entries(SHOWS).map(([id, title]) => ({ id, title }));
  const pick = (id) => setQuery({
    show: id === "streams" ? null : id, sort: null, reverse: null, page: null, name: null,
    state: null, with: null,
  });
  return html`
    <${Page} title="Streams" ...${linesOf(shows, list, query, vhost)}>
      <${Tabs} tabs=${tabs} current=${shows} onPick=${pick} />
      <${List} key=${shows} ...${list} columns=${COLUMNS[shows]} caption=${SHOWS[shows]}
        rowKey=${keyOf} empty=${EMPTY[shows]} />
    <//>`;
}
