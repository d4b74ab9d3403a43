/* Queues: the list, and declaring one. */

import { useData } from "../core/data.js";
import { count, rate } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { linesOf } from "../core/list_query.js";
import { useLive } from "../core/live.js";
import { go, href } from "../core/route.js";
import { useVhost } from "../core/vhost.js";
import { Badges } from "../parts/badges.js";
import { Button } from "../parts/button.js";
import { countColumn, rateColumn, vhostColumn } from "../parts/cells.js";
import { DeclareQueue } from "../parts/declare_queue.js";
import { Empty } from "../parts/empty.js";
import { Figures } from "../parts/figures.js";
import { List } from "../parts/list.js";
import { Page } from "../parts/page.js";

const EVERY_MS = 5000;
const FIELDS = [
  "name", "vhost", "type", "state", "durable", "auto_delete", "exclusive", "policy", "arguments",
  "effective_policy_definition", "consumers", "messages", "messages_ready",
  "messages_unacknowledged", "message_stats",
].join(",");

function columnsOf(vhost) {
  return [
    {
      name: "name",
      title: "Name",
      sort: true,
      cell: (row) => {
        const page = row.type === "stream" ? "streams" : "queues";
        return html`<a class="name" href=${href([page, row.vhost, row.name])}>${row.name}</a>`;
      },
    },
    ...vhostColumn(vhost),
    { name: "type", title: "Type", sort: true, wide: true },
    {
      name: "features",
      title: "Features",
      wide: true,
      cell: (row) => html`<${Badges} object=${row} />`,
    },
    { ...countColumn("consumers", "Consumers"), wide: true },
    countColumn("messages_ready", "Ready", "Messages that wait for a consumer"),
    countColumn("messages_unacknowledged", "Unacked", "Messages that consumers have not settled"),
    { ...countColumn("messages", "Total"), wide: true },
    rateColumn("publish", "In", "Published into the queue"),
    rateColumn("deliver_get", "Out", "Delivered to consumers, and got"),
    rateColumn("ack", "Ack", "Acknowledged by consumers"),
  ];
}

const FILTERS = [
  {
    name: "type",
    title: "Type",
    options: ["classic", "quorum", "stream"].map((value) => ({ value, label: value })),
  },
  {
    name: "state",
    title: "State",
    options: ["running", "paused"].map((value) => ({ value, label: value })),
  },
  {
    name: "with",
    title: "Messages",
    options: [
      { value: "ready", label: "some ready", where: "messages_ready>0" },
      { value: "unacked", label: "some unacked", where: "messages_unacknowledged>0" },
      { value: "none", label: "none", where: "messages=0" },
    ],
  },
  {
    name: "consumers",
    title: "Consumers",
    options: [
      { value: "0", label: "none" },
      { value: "some", label: "some", where: "consumers>0" },
    ],
  },
];

function levels(found) {
  return [
    { name: "Ready", value: count(found?.messages_ready) },
    { name: "Unacked", value: count(found?.messages_unacknowledged) },
    { name: "Total", value: count(found?.messages) },
  ];
}

/** Of the whole broker. */
function Totals() {
  const { totals, rates } = useLive()?.overview ?? {};
  return html`<${Figures}
    items=${[
      ...levels(totals),
      { name: "Published", value: rate(rates?.publish) },
      { name: "Delivered", value: rate(rates?.deliver_get) },
      { name: "Acknowledged", value: rate(rates?.ack) },
    ]}
  />`;
}

function VhostTotals({ vhost }) {
  const { data } = useData(["vhosts", vhost], {}, { every: EVERY_MS });
  return html`<${Figures} items=${levels(data)} />`;
}

export default function Queues({ query }) {
  const vhost = useVhost();
  const [declaring, setDeclaring] = useState(false);
  const path = vhost === null ? ["queues"] : ["queues", vhost];
  const list = { path, query: { columns: FIELDS }, filters: FILTERS };
  const close = () => setDeclaring(false);
  const declared = (place, name, type) => {
    close();
    go([type === "stream" ? "streams" : "queues", place, name]);
  };
  return html`<${Page}
    title="Queues"
    actions=${html`<${Button} kind="main" onClick=${() => setDeclaring(true)}>Declare a queue<//>`}
    ...${linesOf("queues", list, query, vhost)}
  >
    ${vhost === null ? html`<${Totals} />` : html`<${VhostTotals} vhost=${vhost} />`}
    <${List}
      ...${list}
      columns=${columnsOf(vhost)}
      rowKey=${(row) => `${row.vhost}\n${row.name}`}
      caption="Queues"
      empty=${html`<${Empty} title="No queues yet">
        <p>Clients declare their queues when they start. A queue can be declared here as well.</p>
        <${Button} onClick=${() => setDeclaring(true)}>Declare a queue<//>
      <//>`}
    />
    <${DeclareQueue} open=${declaring} vhost=${vhost} onClose=${close} onDone=${declared} />
  <//>`;
}
