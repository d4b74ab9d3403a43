/* One queue: figures and charts, its messages, consumers, bindings and settings, and what can be
   done with it. */

import { command, inVhost } from "../core/commands.js";
import { useData } from "../core/data.js";
import { bytes, count, rate } from "../core/format.js";
import { html, useEffect, useState } from "../core/html.js";
import { ofObject, useLive } from "../core/live.js";
import { QUEUE_QUERY } from "../core/queue_query.js";
import { go, href, setQuery } from "../core/route.js";
import { statRate } from "../core/stats.js";
import { ArgumentTable } from "../parts/arguments.js";
import { Badges } from "../parts/badges.js";
import { Browse } from "../parts/browse.js";
import { QueueConsumers, consumerLines } from "../parts/consumers.js";
import { Figures } from "../parts/figures.js";
import { HistoryCharts } from "../parts/history_charts.js";
import { Key } from "../parts/key.js";
import { Lazy } from "../parts/lazy.js";
import { MissingExchange } from "../parts/missing_exchange.js";
import { Notice } from "../parts/notice.js";
import { Page } from "../parts/page.js";
import { PublishForm } from "../parts/publish.js";
import { QueueActions } from "../parts/queue_actions.js";
import { QueueBindings, queueBindingLines } from "../parts/queue_bindings.js";
import { Tabs } from "../parts/tabs.js";
import { GetForm, MoveForm } from "../parts/take.js";

const EVERY_MS = 5000;
const topology = () => import("../parts/topology.js").then((module) => module.TopologyGraph);

const CHARTS = [
  {
    title: "Messages",
    unit: "count",
    lines: [["messages_ready", "Ready"], ["messages_unacknowledged", "Unacked"]],
  },
  {
    title: "Rates",
    unit: "rate",
    lines: [
      ["publish", "Published"], ["deliver_get", "Delivered"], ["ack", "Acknowledged"],
      ["redeliver", "Redelivered"],
    ],
  },
];

/** Charts and facts. */
function Overview({ queue, vhost, name, query }) {
  return html`<div class="stack">
    <${HistoryCharts} of=${{ kind: "queue", vhost, name }} charts=${CHARTS} />
    <div class="aside">
      <section class="box">
        <h2>Facts</h2>
        <${Key}
          rows=${[
            ["Type", queue.type],
            ["State", queue.state],
            ["Durable", queue.durable ? "yes" : "no"],
            ["Auto-delete", queue.auto_delete ? "yes" : "no"],
            ["Exclusive", queue.exclusive
              ? html`yes, of <a class="name"
                  href=${href(["connections", queue.owner_pid_details?.name ?? ""])}
                  >${queue.owner_pid_details?.name}</a>`
              : "no"],
            ["Bytes that are ready", bytes(queue.message_bytes_ready)],
            ["Consumers", count(queue.consumers)],
            ["Active consumer", queue.single_active_consumer_tag],
            ["Exclusive consumer", queue.exclusive_consumer_tag],
          ]}
        />
      </section>
      <section class="box">
        <h2>Where messages come from and go</h2>
        <${Lazy} load=${topology} props=${{ vhost, queue: name }} />
      </section>
    </div>
  </div>`;
}

export default function Queue({ parts, query }) {
  const [, vhost, name] = parts;
  const path = ["queues", vhost, name];
  const { data: queue, error, reload } = useData(path, QUEUE_QUERY, { every: EVERY_MS });
  const live = ofObject(useLive([["queue", vhost, name]]), "queue", vhost, name);
  const [version, setVersion] = useState(0);
  const changed = () => {
    setVersion((before) => before + 1);
    return reload();
  };
  const isStream = queue?.type === "stream";
  useEffect(() => {
    // RabbitMQ has streams among its queues, at this address.
    if (isStream) {
      go(["streams", vhost, name], {}, { replace: true });
    }
  }, [isStream, vhost, name]);
  const head = html`<span class="name">${name}</span> <span class="crumb">queue in${" "}
    <span class="name">${vhost}</span></span>`;
  if (!queue || isStream) {
    return html`<${Page} title=${name} head=${head}>
      ${error && html`<${Missing} error=${error} />`}
    <//>`;
  }
  const now = { ...queue, ...(live?.messages === undefined ? {} : live) };
  const rates = live?.rates ?? {};
  const tab = query.tab ?? "overview";
  const line = (verb) => command(`queues ${verb}`, [name], inVhost(vhost));
  const tabs = [
    { id: "overview", title: "Overview" },
    { id: "look", title: "Browse" },
    { id: "consumers", title: `Consumers (${count(queue.consumers)})` },
    { id: "bindings", title: "Bindings" },
    { id: "settings", title: "Settings" },
    { id: "publish", title: "Publish" },
    { id: "get", title: "Get messages" },
    { id: "move", title: "Move" },
  ];
  const panels = {
    look: () => html`<${Browse} path=${path} name=${name} version=${version} />`,
    consumers: () => html`<${QueueConsumers} vhost=${vhost} queue=${name} />`,
    bindings: () => html`<${QueueBindings} vhost=${vhost} name=${name} />`,
    settings: () => html`<${ArgumentTable} object=${queue} />`,
    publish: () => html`<section class="box"><${PublishForm} vhost=${vhost} exchange="amq.default"
      queue=${name} onDone=${changed} /></section>`,
    get: () => html`<section class="box"><${GetForm} vhost=${vhost} name=${name}
      paused=${queue.state === "paused"} onDone=${changed} /></section>`,
    move: () => html`<section class="box"><${MoveForm} vhost=${vhost} name=${name}
      ready=${queue.messages_ready} onDone=${changed} /></section>`,
  };
  const show = panels[tab];
  const pause = queue.state === "paused" ? "resume" : "pause";
  // The other tabs are forms, whose lines have what is typed.
  const lines = {
    overview: () => ({
      cli: ["show", pause, "purge", "delete"].map(line),
      http: [
        { path },
        { method: "PUT", path: [...path, pause] },
        { method: "DELETE", path: [...path, "contents"] },
        { method: "DELETE", path },
      ],
    }),
    consumers: () => consumerLines(vhost, name, query),
    bindings: () => queueBindingLines(vhost, name, query),
    settings: () => ({ cli: line("show"), http: { path } }),
  };
  return html`<${Page}
    title=${name}
    head=${html`${head} <${Badges} object=${queue} />`}
    actions=${html`<${QueueActions} queue=${now} reload=${changed} />`}
    ...${lines[show ? tab : "overview"]?.()}
  >
    ${error && html`<${Notice} kind="bad">${error.message}<//>`}
    <${MissingExchange} vhost=${vhost} kind="queue" name=${name} />
    <${Figures}
      items=${[
        { name: "Ready", value: count(now.messages_ready) },
        { name: "Unacked", value: count(now.messages_unacknowledged) },
        { name: "Total", value: count(now.messages) },
        { name: "Consumers", value: count(queue.consumers) },
        { name: "In", value: rate(rates.publish ?? statRate(queue, "publish")) },
        { name: "Out", value: rate(rates.deliver_get ?? statRate(queue, "deliver_get")) },
        { name: "Ack", value: rate(rates.ack ?? statRate(queue, "ack")) },
      ]}
    />
    <${Tabs} tabs=${tabs} current=${show ? tab : "overview"}
      onPick=${(id) => setQuery({ tab: id === "overview" ? null : id }, { replace: true })} />
    <div role="tabpanel" aria-label=${tab}>
      ${show
        ? show()
        : html`<${Overview} queue=${queue} vhost=${vhost} name=${name} query=${query} />`}
    </div>
  <//>`;
}

function Missing({ error }) {
  return error.status === 404
    ? html`<${Notice} kind="warn">There is no such queue: it may have been deleted, or expired.
        ${" "}<a href=${href(["queues"])}>All queues</a><//>`
    : html`<${Notice} kind="bad">${error.message}<//>`;
}
