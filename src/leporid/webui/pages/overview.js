/* The overview: what needs attention first, rates, backlog, memory, disk, and the node. */

import { useData } from "../core/data.js";
import { bytes, count, duration, rate } from "../core/format.js";
import { html } from "../core/html.js";
import { useLive, useSeries } from "../core/live.js";
import { useRange } from "../core/range.js";
import { href } from "../core/route.js";
import { may, reasonNot, useUser } from "../core/session.js";
import { Attention } from "../parts/attention.js";
import { Chart } from "../parts/chart.js";
import { Figures } from "../parts/figures.js";
import { Grid } from "../parts/grid.js";
import { Key } from "../parts/key.js";
import { Meter } from "../parts/meter.js";
import { Page } from "../parts/page.js";

const EVERY_MS = 10_000;
const SLOW_MS = 60_000;

function Numbers({ live, overview, monitors }) {
  const { totals, rates } = live?.overview ?? {};
  const objects = overview?.object_totals ?? {};
  const of = (name) => totals?.[name] ?? objects[name];
  const longest = href(["queues"], { sort: "messages_ready", reverse: "1" });
  const unsettled = href(["queues"], { sort: "messages_unacknowledged", reverse: "1" });
  return html`<${Figures}
    items=${[
      { name: "Ready", value: count(of("messages_ready")), href: longest },
      { name: "Unacked", value: count(of("messages_unacknowledged")), href: unsettled },
      monitors && { name: "Published", value: rate(rates?.publish) },
      monitors && { name: "Delivered", value: rate(rates?.deliver_get) },
      monitors && { name: "Acknowledged", value: rate(rates?.ack) },
      monitors && {
        name: "Connections", value: count(of("connections")), href: href(["connections"]),
      },
      monitors && { name: "Channels", value: count(of("channels")), href: href(["channels"]) },
      { name: "Consumers", value: count(of("consumers")) },
      { name: "Queues", value: count(of("queues")), href: href(["queues"]) },
      { name: "Exchanges", value: count(of("exchanges")), href: href(["exchanges"]) },
    ]}
  />`;
}

function Charts({ user, monitors }) {
  // The history is for who monitors; to others each sample says what is in their virtual hosts.
  const [chosen, pick] = useRange();
  const range = monitors ? chosen : "minute";
  const why = monitors ? "" : `${reasonNot(user, "monitoring")} The pages of your queues and ` +
    "virtual hosts have longer ranges.";
  const { times, series } = useSeries({ kind: "overview" }, range);
  const line = (name, label, unit) => ({
    name,
    label,
    unit,
    values: series[name] ?? times.map(() => null),
  });
  const common = { times, range, onRange: pick, why };
  const backlog = html`<${Chart} ...${common} title="Backlog" height=${220}
    series=${[
      line("messages_ready", "Ready", "count"),
      line("messages_unacknowledged", "Unacked", "count"),
    ]} />`;
  if (!monitors) {
    // The others are of all virtual hosts.
    return backlog;
  }
  return html`<div class="columns">
    <${Chart} ...${common} title="Message rates" height=${220}
      series=${[
        line("publish", "Published", "rate"),
        line("deliver_get", "Delivered", "rate"),
        line("ack", "Acknowledged", "rate"),
        line("confirm", "Confirmed", "rate"),
        line("redeliver", "Redelivered", "rate"),
        line("return_unroutable", "Unroutable, returned", "rate"),
        line("drop_unroutable", "Unroutable, dropped", "rate"),
      ]} />
    ${backlog}
    <${Chart} ...${common} title="Memory" height=${140}
      series=${[line("memory", "Used", "bytes")]} />
    <${Chart} ...${common} title="Sync to disk" height=${140}
      series=${[line("sync_ms", "Takes", "ms")]} />
  </div>`;
}

function levelOf(share, alarm) {
  return alarm ? "bad" : share > 0.85 ? "warn" : "good";
}

function Resources({ node, live }) {
  const memory = live?.overview?.memory ?? { used: node?.mem_used, limit: node?.mem_limit };
  const disk = live?.overview?.disk ?? { free: node?.disk_free, limit: node?.disk_free_limit };
  const sync = live?.overview?.sync_ms;
  const share = memory.limit ? memory.used / memory.limit : 0;
  // There is no size of the disk: the bar is full when as much is free as has to be.
  const short = disk.free ? Math.min(1, disk.limit / disk.free) : 0;
  return html`<section class="box stack">
    <h2>Resources</h2>
    <${Meter} label="Memory" share=${share} level=${levelOf(share, node?.mem_alarm)}
      text=${`${bytes(memory.used)} of ${bytes(memory.limit)}`} />
    <${Meter} label="Disk" share=${short} level=${levelOf(short, node?.disk_free_alarm)}
      text=${`${bytes(disk.free)} free, at least ${bytes(disk.limit)} needed`} />
    ${node &&
    html`<${Meter} label="Connections" share=${node.sockets_used / node.sockets_total}
      level=${levelOf(node.sockets_used / node.sockets_total)}
      text=${`${count(node.sockets_used)} of ${count(node.sockets_total)}`} />
      <${Meter} label="File descriptors" share=${node.fd_used / node.fd_total}
        level=${levelOf(node.fd_used / node.fd_total)}
        text=${`${count(node.fd_used)} of ${count(node.fd_total)}`} />`}
    <${Key} rows=${[["Sync to disk takes", sync === undefined ? null : duration(sync)]]} />
  </section>`;
}

function Node({ node, overview }) {
  return html`<section class="box">
    <h2>Node</h2>
    <${Key}
      rows=${[
        ["Name", html`<span class="name">${overview.node}</span>`],
        ["Cluster name", html`<span class="name">${overview.cluster_name}</span>`],
        ["Version", `${overview.product_name} ${overview.product_version}`],
        ["Answers as", `RabbitMQ ${overview.rabbitmq_version}`],
        ["Runs for", node && duration(node.uptime)],
        ["Process", node && html`${node.os_pid}, ${count(node.processors)} processors`],
        ["Data", node && html`<code>${node.db_dir}</code>`],
        ["Configuration", node?.config_files?.length > 0 &&
          node.config_files.map((each) => html`<div key=${each}><code>${each}</code></div>`)],
      ]}
    />
  </section>`;
}

const CHURN = [
  ["Connections", "connection_created", "connection_closed"],
  ["Channels", "channel_created", "channel_closed"],
  ["Queues", "queue_created", "queue_deleted"],
];

/** How many objects came and went: clients that connect for each message are seen here. */
function Churn({ rates }) {
  const rows = CHURN.map(([title, came, went]) => ({
    title,
    came: rates[came],
    cameRate: rates[`${came}_details`]?.rate,
    went: rates[went],
    wentRate: rates[`${went}_details`]?.rate,
  }));
  return html`<section class="box"><h2>Opened and closed since the start</h2>
    <${Grid} rows=${rows} columns=${CHURN_COLUMNS} caption="Opened and closed"
      rowKey=${(row) => row.title} /></section>`;
}

const CHURN_COLUMNS = [
  { name: "title", title: "", label: "Objects", sort: false },
  { name: "came", title: "Opened", align: "right", cell: (row) => count(row.came) },
  { name: "cameRate", title: "a second", align: "right", cell: (row) => rate(row.cameRate) },
  { name: "went", title: "Closed", align: "right", cell: (row) => count(row.went) },
  { name: "wentRate", title: "a second", align: "right", cell: (row) => rate(row.wentRate) },
];

const PORTS = [
  { name: "protocol", title: "Protocol" },
  { name: "ip_address", title: "Address", cell: (row) => html`<code>${row.ip_address}</code>` },
  { name: "port", title: "Port", align: "right" },
];

export default function Overview({ query }) {
  const user = useUser();
  const monitors = may(user, "monitoring");
  const live = useLive();
  const { data: nodes } = useData(monitors ? ["nodes"] : null, {}, { every: EVERY_MS });
  const { data: overview } = useData(["overview"], {}, { every: SLOW_MS });
  const node = nodes?.[0] ?? null;
  return html`<${Page}
    title="Overview"
    cli=${["leporid status", "leporid doctor", "leporid top"]}
    http=${[{ path: ["overview"] }, { path: ["nodes"] }, { path: ["samples"],
      query: { range: query.range ?? "minute" } }]}
  >
    <section class="stack" aria-labelledby="attention-title">
      <h2 id="attention-title">What needs attention first</h2>
      <${Attention} live=${live} node=${node} monitors=${monitors} />
    </section>
    <${Numbers} live=${live} overview=${overview} monitors=${monitors} />
    <${Charts} user=${user} monitors=${monitors} />
    <div class="columns">
      ${monitors && html`<${Resources} node=${node} live=${live} />`}
      ${overview && html`<${Node} node=${node} overview=${overview} />`}
      ${monitors && overview?.churn_rates && html`<${Churn} rates=${overview.churn_rates} />`}
      ${overview?.listeners &&
      html`<section class="box"><h2>Listens on</h2>
        <${Grid} rows=${overview.listeners} columns=${PORTS} caption="Ports"
          rowKey=${(row) => `${row.protocol} ${row.ip_address} ${row.port}`} /></section>`}
    </div>
  <//>`;
}
