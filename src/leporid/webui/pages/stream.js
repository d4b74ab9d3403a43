/* One stream: what it keeps, its messages from any offset or time, a live tail, readers and groups
   with their lag, programs that read it, and what RabbitMQ's page of a queue has. Each of these is
   a part; the page joins them. Consumers, bindings and settings are those of one partition. */

import { html } from "../core/html.js";
import { command, inVhost, list } from "../core/commands.js";
import { useData } from "../core/data.js";
import { QUEUE_QUERY } from "../core/queue_query.js";
import { href, setQuery } from "../core/route.js";
import { bytes, count } from "../core/format.js";
import { ArgumentTable } from "../parts/arguments.js";
import { Badges } from "../parts/badges.js";
import { QueueConsumers, consumerLines } from "../parts/consumers.js";
import { Page } from "../parts/page.js";
import { PublishForm } from "../parts/publish.js";
import { QueueActions } from "../parts/queue_actions.js";
import { QueueBindings, queueBindingLines } from "../parts/queue_bindings.js";
import { Notice } from "../parts/notice.js";
import { Tabs } from "../parts/tabs.js";
import { TopologyGraph } from "../parts/topology.js";
import { StreamKept } from "../parts/stream_kept.js";
import { StreamMessages } from "../parts/stream_messages.js";
import { StreamReaders, readerLines } from "../parts/stream_readers.js";
import { StreamCopy } from "../parts/stream_copy.js";
import { StreamChart } from "../parts/stream_chart.js";
import { snippetsOf } from "../parts/stream_snippets.js";

const TABS = [
  { id: "messages", title: "Messages" },
  { id: "readers", title: "Readers and groups" },
  { id: "rates", title: "Rates" },
  { id: "copy", title: "Copy as…" },
  { id: "consumers", title: "Consumers" },
  { id: "bindings", title: "Bindings" },
  { id: "settings", title: "Settings" },
  { id: "publish", title: "Publish" },
  { id: "topology", title: "Topology" },
];
const EVERY_MS = 2000;
const QUEUE_EVERY_MS = 5000;

export default function Stream({ parts, query }) {
  const [, vhost, name] = parts;
  const { data, error } = useData(["streams", vhost, name], {}, { every: EVERY_MS });
  const shows = TABS.some((tab) => tab.id === query.show) ? query.show : "messages";
  const partition = Math.min(Number(query.partition) || 0, (data?.partitions.length ?? 1) - 1);
  const place = data?.partitions[partition].queue;
  const queue = useData(data && ["queues", vhost, place], QUEUE_QUERY, {
    every: QUEUE_EVERY_MS,
  });
  const from = /^\d+$/.test(query.from ?? "") ? Number(query.from) : null;
  const filters = { filter: query.filter || undefined, tags: query.tags || undefined };
  const cli = snippetsOf({
    origin: "", vhost, stream: name, partition, partitions: data?.partitions.length ?? 1, from,
    filter: query.filter ?? "", tags: query.tags ?? "", dialect: "jms",
  }).find((one) => one.id === "cli").text.trim();
  const path = ["streams", vhost, name];
  const browse = { from: from ?? undefined, partition: partition || undefined, ...filters };
  const http = [{ path }, { path: [...path, "browse"], query: browse }];
  if (error && !data) {
    return html`<${Page} title=${name} cli=${cli} http=${http}>
      <${Notice} kind="bad">${error.message}<//>
      <p><a href=${href(["streams"])}>All streams</a></p><//>`;
  }
  if (!data) return html`<${Page} title=${name}><p class="soft">Loading…</p><//>`;
  const total = data.partitions.reduce((sum, one) => sum + one.end - one.first, 0);
  const size = data.partitions.reduce((sum, one) => sum + one.bytes, 0);
  const own = { vhost, name, info: data, partition };
  const to = data.partitions.length > 1
    ? { exchange: name } : { exchange: "amq.default", queue: place };
  const line = (verb) => command(`streams ${verb}`, [name], inVhost(vhost));
  const queuePath = ["queues", vhost, place];
  const lines = {
    messages: () => ({ cli: [cli, line("delete")],
      http: [...http, { method: "DELETE", path }] }),
    readers: () => readerLines(vhost, name, query),
    rates: () => ({ cli: line("show"),
      http: { path: ["samples", "stream", vhost, place] } }),
    copy: () => ({ cli, http: http[1] }),
    consumers: () => consumerLines(vhost, place, query),
    bindings: () => queueBindingLines(vhost, place, query),
    settings: () => ({ cli: command("queues show", [place], inVhost(vhost)),
      http: { path: queuePath } }),
    topology: () => ({
      cli: list("bindings", { where: [`destination=${place}`] }, vhost),
      http: { path: ["topology", vhost], query: { around: `queue:${place}` } },
    }),
  };
  const actions = html`<a class="button" href=${href(["filters"], { vhost, stream: name })}>
      Try a filter</a>
    ${queue.data && html`<${QueueActions} queue=${queue.data} stream=${name}
      reload=${queue.reload} />`}`;
  const head = html`<span class="name">${name}</span> <span class="crumb">stream in${" "}
    <span class="name">${vhost}</span></span> ${queue.data &&
    html`<${Badges} object=${queue.data} />`}`;
  return html`
    <${Page} title=${name} head=${head} actions=${actions} ...${lines[shows]?.()}>
      <p class="lead">${count(total)} messages, ${bytes(size)}, in
        ${" "}${data.partitions.length === 1 ? "one log" : `${data.partitions.length} partitions`}
      </p>
      <${StreamKept} ...${own} />
      <${Tabs} tabs=${TABS} current=${shows}
        onPick=${(id) => setQuery({ show: id === "messages" ? null : id })} />
      ${shows === "messages" && html`<${StreamMessages} ...${own} query=${query} />`}
      ${shows === "readers" && html`<${StreamReaders} ...${own} query=${query} />`}
      ${shows === "rates" && html`<${StreamChart} ...${own} />`}
      ${shows === "copy" && html`<${StreamCopy} ...${own} query=${query} />`}
      ${shows === "consumers" && html`<${QueueConsumers} vhost=${vhost}
        queue=${place} isStream />`}
      ${shows === "bindings" && html`<${QueueBindings} vhost=${vhost} name=${place} />`}
      ${shows === "settings" && queue.data && html`<${ArgumentTable} object=${queue.data} />`}
      ${shows === "publish" && html`<section class="box"><${PublishForm} vhost=${vhost}
        ...${to} />
        </section>`}
      ${shows === "topology" && html`
        <${TopologyGraph} vhost=${vhost} queue=${data.partitions[partition].queue} />`}
    <//>`;
}
