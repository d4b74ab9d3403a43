/* One channel: its mode, what is unsettled on it, its consumers. */

import { command } from "../core/commands.js";
import { useData } from "../core/data.js";
import { count, rate } from "../core/format.js";
import { html } from "../core/html.js";
import { ofObject, useLive } from "../core/live.js";
import { href } from "../core/route.js";
import { statRate } from "../core/stats.js";
import { ChannelConsumers } from "../parts/consumers.js";
import { Figures } from "../parts/figures.js";
import { HistoryCharts } from "../parts/history_charts.js";
import { Key } from "../parts/key.js";
import { Notice } from "../parts/notice.js";
import { Page } from "../parts/page.js";

const EVERY_MS = 5000;
const CHARTS = [
  {
    title: "Rates",
    unit: "rate",
    lines: [["publish", "Published"], ["deliver_get", "Delivered"], ["ack", "Acknowledged"]],
  },
  {
    title: "Not settled",
    unit: "count",
    lines: [["messages_unacknowledged", "Unacked"], ["messages_unconfirmed", "Unconfirmed"]],
  },
];

export default function Channel({ parts, query }) {
  const name = parts[1];
  const path = ["channels", name];
  const { data: found, error } = useData(path, {}, { every: EVERY_MS });
  const live = ofObject(useLive([["channel", name]]), "channel", undefined, name);
  const head = html`<span class="name">${name}</span> <span class="crumb">channel</span>`;
  const ended = html`This channel has ended. <a href=${href(["channels"])}>All channels</a>`;
  const notice =
    error && html`<${Notice} kind="warn">${error.status === 404 ? ended : error.message}<//>`;
  if (!found) {
    return html`<${Page} title=${name} head=${head}>${notice}<//>`;
  }
  const now = { ...found, ...live };
  const rates = live?.rates ?? {};
  const connection = found.connection_details?.name;
  return html`<${Page} title=${name} head=${head} cli=${command("channels show", [name])}
    http=${{ path }}>
    ${notice}
    <${Figures}
      items=${[
        { name: "Unacked", value: count(now.messages_unacknowledged) },
        { name: "Unconfirmed", value: count(now.messages_unconfirmed) },
        { name: "Consumers", value: count(found.consumer_count) },
        { name: "Published", value: rate(rates.publish ?? statRate(found, "publish")) },
        { name: "Delivered", value: rate(rates.deliver_get ?? statRate(found, "deliver_get")) },
        { name: "Acknowledged", value: rate(rates.ack ?? statRate(found, "ack")) },
      ]}
    />
    <${HistoryCharts} of=${{ kind: "channel", name }} charts=${CHARTS} />
    <div class="aside"><section class="box">
      <h2>Facts</h2>
      <${Key}
        rows=${[
          ["Connection", html`<a class="name" href=${href(["connections", connection])}
            >${connection}</a>`],
          ["User", html`<a class="name" href=${href(["users", found.user])}>${found.user}</a>`],
          ["Virtual host", html`<span class="name">${found.vhost}</span>`],
          ["State", found.state],
          ["Confirms", found.confirm ? "yes" : "no"],
          ["Transactions", found.transactional
            ? `yes: ${count(found.messages_uncommitted)} messages and
               ${count(found.acks_uncommitted)} acks are not committed`
            : "no"],
          ["Prefetch of each consumer", found.prefetch_count || "no limit"],
          ["Prefetch of the channel", found.global_prefetch_count || "no limit"],
        ]}
      />
    </section>
    <section class="stack">
      <h2>Consumers</h2>
      <${ChannelConsumers} vhost=${found.vhost} channel=${name} />
    </section></div>
  <//>`;
}
