/* One stream: what it keeps, its messages from any offset or time, a live tail, readers and groups
   with their lag, and programs that read it. Each of these is a part; the page joins them. */

import { html } from "../core/html.js";
import { useData } from "../core/data.js";
import { href, setQuery } from "../core/route.js";
import { bytes, count } from "../core/format.js";
import { Page } from "../parts/page.js";
import { Notice } from "../parts/notice.js";
import { Tabs } from "../parts/tabs.js";
import { TopologyGraph } from "../parts/topology.js";
import { StreamKept } from "../parts/stream_kept.js";
import { StreamMessages } from "../parts/stream_messages.js";
import { StreamReaders } from "../parts/stream_readers.js";
import { StreamCopy } from "../parts/stream_copy.js";
import { StreamChart } from "../parts/stream_chart.js";
import { snippetsOf } from "../parts/stream_snippets.js";

const TABS = [
  { id: "messages", title: "Messages" },
  { id: "readers", title: "Readers and groups" },
  { id: "rates", title: "Rates" },
  { id: "copy", title: "Copy as…" },
  { id: "topology", title: "Topology" },
];
const EVERY_MS = 2000;

export default function Stream({ parts, query }) {
  const [, vhost, name] = parts;
  const { data, error } = useData(["streams", vhost, name], {}, { every: EVERY_MS });
  const shows = TABS.some((tab) => tab.id === query.show) ? query.show : "messages";
  const partition = Math.min(Number(query.partition) || 0, (data?.partitions.length ?? 1) - 1);
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
  return html`
    <${Page} title=${name} cli=${cli} http=${http}
      actions=${html`<a class="button" href=${href(["filters"], { vhost, stream: name })}>
        Try a filter</a>`}>
      <p class="lead">${count(total)} messages, ${bytes(size)}, in
        ${" "}${data.partitions.length === 1 ? "one log" : `${data.partitions.length} partitions`},
        ${" "}virtual host <code>${vhost}</code></p>
      <${StreamKept} ...${own} />
      <${Tabs} tabs=${TABS} current=${shows}
        onPick=${(id) => setQuery({ show: id === "messages" ? null : id })} />
      ${shows === "messages" && html`<${StreamMessages} ...${own} query=${query} />`}
      ${shows === "readers" && html`<${StreamReaders} ...${own} />`}
      ${shows === "rates" && html`<${StreamChart} ...${own} query=${query} />`}
      ${shows === "copy" && html`<${StreamCopy} ...${own} query=${query} />`}
      ${shows === "topology" && html`
        <${TopologyGraph} vhost=${vhost} queue=${data.partitions[partition].queue} />`}
    <//>`;
}
