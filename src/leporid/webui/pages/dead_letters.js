/* Dead letters: how many died in which queue and why, over time; looking at those that a queue
   holds; sending them back or elsewhere, with a preview first. */

import { command, inVhost, option } from "../core/commands.js";
import { html, useMemo, useState } from "../core/html.js";
import { useData } from "../core/data.js";
import { linesOf } from "../core/list_query.js";
import { count, rate } from "../core/format.js";
import { href, setQuery } from "../core/route.js";
import { Button } from "../parts/button.js";
import { DeathChart } from "../parts/death_chart.js";
import { REASONS, keyOf, useDeathRates } from "../parts/death_rates.js";
import { DeadLetterBox, expressionOf, reasonIn } from "../parts/dead_letter_box.js";
import { Empty } from "../parts/empty.js";
import { List } from "../parts/list.js";
import { Notice } from "../parts/notice.js";
import { Page } from "../parts/page.js";
import { SourcePicker } from "../parts/source_picker.js";
import { InVhost } from "../parts/in_vhost.js";

const EVERY_MS = 2000;
const ROWS_MAX = 500;
const TARGETS_MAX = 30;
const TARGETS_EVERY_MS = 10_000;
const FILTERS = [
  {
    name: "reason",
    title: "Reason",
    options: REASONS.map((value) => ({ value, label: value })),
  },
  {
    name: "lost",
    title: "Came to no queue",
    options: [{ value: "some", label: "some", where: "dropped>0" }],
  },
];

export default function DeadLetters({ query }) {
  return html`<${InVhost} title="Dead letters" page=${InDeadLetters} query=${query} />`;
}

function InDeadLetters({ vhost, query }) {
  const path = ["dead-letters", vhost];
  const { data, error } = useData(path, {
    page: 1, page_size: ROWS_MAX, sort: "messages", sort_reverse: true,
    columns: "queue,exchange,routing_key",
  }, { every: TARGETS_EVERY_MS });
  const rows = data?.items ?? [];
  const charted = query.chart || undefined;
  const box = query.queue ?? "";
  const asks = { path, prefix: "deaths-", sorted: "messages", reverse: true, filters: FILTERS };
  const lines = linesOf("deadletters", asks, query, vhost);
  const reason = reasonIn(query);
  const look = command("deadletters look", [box], reason && option("reason", reason),
    inVhost(vhost));
  const filter = expressionOf({ reason, died_in: query.died_in });
  const browse = { path: ["queues", vhost, box, "browse"], query: { filter } };
  const cli = [lines.cli, box && look].filter(Boolean);
  const http = [lines.http, box && browse].filter(Boolean);
  return html`
    <${Page} title="Dead letters" cli=${cli} http=${http}
      head=${html`Dead letters <span class="crumb">in <span class="name">${vhost}</span></span>`}>
      ${error && html`<${Notice} kind="bad">${error.message}<//>`}
      ${rows.length > 0 && html`<${DeathChart} key=${charted} vhost=${vhost} queue=${charted} />`}
      <${Deaths} list=${asks} vhost=${vhost} charted=${charted} />
      <section class="stack" aria-label="Look at dead letters">
        <h2>Look and send back</h2>
        <${Holders} vhost=${vhost} rows=${rows} box=${box} />
        ${box && html`<${DeadLetterBox} key=${`${vhost} ${box}`} vhost=${vhost} queue=${box}
          query=${query} />`}
      </section>
    <//>`;
}

function Deaths({ list, vhost, charted }) {
  const [rows, setRows] = useState(undefined);
  const rates = useDeathRates(rows);
  const columns = [
    { name: "queue", title: "Died in", sort: true, cell: (row) => html`<a class="name"
      href=${href(["queues", vhost, row.queue])}>${row.queue}</a>` },
    { name: "reason", title: "Reason", sort: true, under: true,
      cell: (row) => html`<span class="badge">${row.reason}</span>` },
    { name: "exchange", title: "Sent to", sort: true, wide: true,
      cell: (row) => html`<a class="name" href=${href(["exchanges", vhost, row.exchange])}
        >${row.exchange}</a>` },
    { name: "routing_key", title: "With key", wide: true, cell: (row) => (row.routing_key === null
      ? html`<span class="soft">its own</span>`
      : html`<span class="name">${row.routing_key}</span>`) },
    { name: "messages", title: "In all", sort: true, hint: "Since the broker started",
      align: "right", cell: (row) => count(row.messages) },
    { name: "rate", title: "Now", align: "right",
      cell: (row) => rate(rates.get(keyOf(row)) ?? 0) },
    { name: "dropped", title: "Came to no queue", sort: true, align: "right", wide: true,
      cell: (row) => html`<span class=${row.dropped ? "state bad" : "soft"}>${count(row.dropped)}
      </span>` },
    { name: "chart", title: "", label: "Chart", cell: (row) => html`<${Button}
      aria-pressed=${row.queue === charted ? "true" : "false"} label=${`Chart of ${row.queue}`}
      onClick=${() => setQuery({ chart: row.queue === charted ? null : row.queue })}>Chart<//>` },
  ];
  return html`<${List} ...${list} columns=${columns} rowKey=${keyOf} every=${EVERY_MS}
    caption="Dead letters by queue, reason and target" search="Filter by queue" onRows=${setRows}
    empty=${html`<${Empty} title="Nothing died since the broker started">
      A queue with <code>x-dead-letter-exchange</code> sends there what expires, is rejected, or
      does not fit.<//>`} />`;
}

/** Queues that hold dead letters: those to which the targets lead. */
function Holders({ vhost, rows, box }) {
  const targets = useMemo(() => {
    const found = new Set();
    for (const row of rows) {
      found.add(JSON.stringify([row.exchange, row.routing_key]));
    }
    return [...found].slice(0, TARGETS_MAX).map((text) => JSON.parse(text));
  }, [JSON.stringify(rows.map((row) => [row.exchange, row.routing_key]))]);
  const exchanges = [...new Set(targets.map(([exchange]) => exchange))]
    .filter((name) => name !== "amq.default" && name !== "(others)");
  const queues = new Set(targets
    .filter(([exchange, key]) => exchange === "amq.default" && key).map(([, key]) => key));
  return html`<div class="row holders">
    ${[...queues].map((name) => html`<${Holder} key=${name} name=${name} box=${box} />`)}
    ${exchanges.slice(0, 8).map((name) => html`<${Bound} key=${name} vhost=${vhost} exchange=${name}
      box=${box} />`)}
    <div class="holder-pick"><${SourcePicker} vhost=${vhost} kind="queue" name=${box}
      label="Queue with dead letters" onPick=${({ name }) => setQuery({ queue: name })} /></div>
  </div>`;
}

function Bound({ vhost, exchange, box }) {
  const { data } = useData(["exchanges", vhost, exchange, "bindings", "source"]);
  const names = new Set((data ?? []).filter((one) => one.destination_type === "queue")
    .map((one) => one.destination));
  return [...names].slice(0, 12)
    .map((name) => html`<${Holder} key=${name} name=${name} box=${box} />`);
}

function Holder({ name, box }) {
  return html`<button type="button" class="chip" aria-pressed=${name === box ? "true" : "false"}
    onClick=${() => setQuery({ queue: name, reason: null, died_in: null })}>
    <span class="name">${name}</span></button>`;
}
