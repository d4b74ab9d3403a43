/* Pipelines: where each reader of a stream is, how far behind, and how pipelines are run.

   Must not know Spark: what is shown is what the broker knows of readers, and what pipelines report
   to it (`parts/pipeline_runs.js`). */

import { brokerNow } from "../core/clock.js";
import { age, count, duration, moment } from "../core/format.js";
import { html } from "../core/html.js";
import { linesOf } from "../core/list_query.js";
import { href, setQuery } from "../core/route.js";
import { useVhost } from "../core/vhost.js";
import { Copy } from "../parts/copy.js";
import { Empty } from "../parts/empty.js";
import { List } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { PipelineRuns, runsOf } from "../parts/pipeline_runs.js";
import { Tabs } from "../parts/tabs.js";

const TABS = [
  { id: "positions", title: "Positions" },
  { id: "runs", title: "Runs" },
  { id: "groups", title: "Groups" },
  { id: "run", title: "Run one" },
];

const READERS = [
  {
    name: "reader",
    title: "Reader",
    sort: true,
    cell: (row) => html`<span class="name">${row.reader}</span>`,
  },
  {
    name: "stream",
    title: "Stream",
    sort: true,
    under: true,
    cell: (row) => html`<a class="name" href=${href(["streams", row.vhost, row.stream],
      row.partition ? { partition: row.partition } : {})}>${row.stream}</a>`,
  },
  {
    name: "vhost",
    title: "Virtual host",
    sort: true,
    under: true,
    cell: (row) => html`<span class="name">${row.vhost}</span>`,
  },
  { name: "partition", title: "Partition", sort: true, align: "right", wide: true },
  {
    name: "user",
    title: "User",
    sort: true,
    under: true,
    cell: (row) =>
      row.user
        ? html`<span class="name">${row.user}</span>`
        : html`<span class="soft" title="Nobody has read by this name since the start.">–</span>`,
  },
  {
    name: "next_offset",
    title: "Reads next",
    wide: true,
    sort: true,
    align: "right",
    cell: (row) => count(row.next_offset),
  },
  { name: "end", title: "End", sort: true, align: "right", wide: true,
    cell: (row) => count(row.end) },
  {
    name: "lag",
    title: "Lag",
    sort: true,
    align: "right",
    cell: (row) => html`<span class=${row.lag ? "" : "zero"}>${count(row.lag)}</span>`,
  },
  {
    name: "lag_ms",
    title: "Oldest waits",
    sort: true,
    align: "right",
    cell: (row) => (row.lag_ms === null ? "–" : duration(row.lag_ms)),
  },
  {
    name: "moved_ms",
    title: "Last progress",
    sort: true,
    align: "right",
    cell: (row) => since(row.moved_ms),
  },
  {
    name: "skipped_messages",
    title: "Missed",
    sort: true,
    align: "right",
    cell: (row) =>
      row.skipped_messages
        ? html`<span class="state bad" title="Retention dropped them before they were read."
            >${count(row.skipped_messages)}</span>`
        : html`<span class="zero">0</span>`,
  },
];

const FILTERS = [
  {
    name: "with",
    title: "Lag",
    options: [
      { value: "lag", label: "some", where: "lag>0" },
      { value: "missed", label: "messages missed", where: "skipped_messages>0" },
    ],
  },
];

function since(ms) {
  return ms ? html`<span title=${moment(ms)}>${age(brokerNow() - ms)}</span>` : "–";
}

const GROUPS = [
  {
    name: "group",
    title: "Group",
    sort: true,
    cell: (row) => html`<span class="name">${row.group}</span>`,
  },
  READERS[1],
  READERS[2],
  { name: "members", title: "Members", sort: true, align: "right" },
  { name: "partitions", title: "Partitions", sort: true, align: "right" },
  { name: "retrying", title: "Retrying", sort: true, align: "right" },
  {
    name: "used_ms",
    title: "Last used",
    sort: true,
    align: "right",
    cell: (row) => since(row.used_ms),
  },
];

const COMMANDS = [
  ["archive", "writes a stream into a table of files, each record exactly once",
    "leporid pipeline run archive --stream STREAM --to data/archive --schema infer --once"],
  ["traffic", "measures rates, sizes, delays, keys and sessions; makes a report",
    "leporid pipeline run traffic --stream STREAM --to data/traffic --once"],
  ["replay", "publishes records of an archive or a stream again",
    "leporid pipeline run replay --stream STREAM --exchange EXCHANGE --rate 100 " +
      "--state data/replay.json --once"],
  ["deadletters", "says why messages died",
    "leporid pipeline run deadletters --stream STREAM --once"],
  ["redrive", "sends some dead letters back",
    "leporid pipeline run redrive --stream STREAM --state data/redrive.json " +
      "--where \"reason = 'rejected'\" --once"],
  ["schedule", "publishes a table of tasks, each to arrive at its time",
    "leporid pipeline run schedule --tasks tasks.csv --format csv --ledger data/ledger --once"],
];

/** The page #/pipelines. */
export default function Pipelines({ query }) {
  const vhost = useVhost();
  const shown = TABS.some(({ id }) => id === query.tab) ? query.tab : "positions";
  const of = shown === "groups" ? "groups" : "readers";
  const noun = shown === "runs" ? "pipelines" : of;
  const list = shown === "runs" ? runsOf(vhost) : {
    path: vhost === null ? [of] : [of, vhost],
    sorted: of === "groups" ? null : "lag",
    reverse: true,
    filters: of === "groups" ? [] : FILTERS,
  };
  return html`<${Page} title="Pipelines" ...${linesOf(noun, list, query, vhost)}>
    <p class="soft">How far each named reader of a stream is: pipelines on Spark, other programs,
      and members of groups.</p>
    <${Tabs} tabs=${TABS} current=${shown} label="About pipelines"
      onPick=${(id) => setQuery({
        tab: id === "positions" ? null : id, sort: null, page: null, with: null,
        state: null, reverse: null, name: null,
      })} />
    ${shown === "runs" && html`<${PipelineRuns} list=${list} />`}
    ${shown === "runs" ? null : shown === "run"
      ? html`<${Commands} />`
      : html`<${List} key=${of} ...${list} columns=${of === "groups" ? GROUPS : READERS}
          caption=${of === "groups" ? "Groups" : "Readers"}
          rowKey=${(row) => JSON.stringify([
            row.vhost, row.stream, row.partition, row.reader ?? row.group])}
          empty=${html`<${Nobody} of=${of} />`} />`}
  <//>`;
}

function Nobody({ of }) {
  return html`<${Empty} title=${of === "groups" ? "No groups" : "Nobody reads a stream by name"}>
    A query on Spark has a position here with the option <code>readerName</code>, a consumer over
    AMQP with <code>x-reader</code>. <a href=${href(["pipelines"], { tab: "run" })}
      >How pipelines are run</a>
  <//>`;
}

function Commands() {
  return html`<section class="box stack">
    <p><code>pip install 'leporid[spark]'</code> brings them; archives need
      ${" "}<code>leporid[lake]</code>. Progress, lag and rows put aside go to Prometheus with
      ${" "}<code>--metrics FILE</code>.</p>
    <dl class="commands">
      ${COMMANDS.map(
        ([name, what, line]) => html`<div key=${name}>
          <dt><strong>${name}</strong> <span class="soft">${what}</span></dt>
          <dd><code>${line}</code><${Copy} text=${line} /></dd>
        </div>`,
      )}
    </dl>
  </section>`;
}
