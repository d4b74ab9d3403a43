/* Runs of pipelines as these report them: the newest of each, and those before it.

   Must not know what a pipeline does. Invariant: a run that reports nothing any more is shown as
   silent, whatever it said last. */

import { brokerNow } from "../core/clock.js";
import { remove } from "../core/api.js";
import { useData } from "../core/data.js";
import { age, count, duration, moment } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { href } from "../core/route.js";
import { reasonNot, useUser } from "../core/session.js";
import { Button } from "./button.js";
import { Confirm } from "./confirm.js";
import { Dialog } from "./dialog.js";
import { Empty } from "./empty.js";
import { Grid } from "./grid.js";
import { List } from "./list.js";
import { Notice } from "./notice.js";

const KINDS = { running: "info", retrying: "warn", done: "good", stopped: "", failed: "bad" };
// A run reports every ten seconds.
const SILENT_MS = 60_000;
const OPEN = new Set(["running", "retrying"]);

function State({ run }) {
  const silent = OPEN.has(run.state) && brokerNow() - run.reported_ms > SILENT_MS;
  return silent
    ? html`<span class="state bad" title=${`It said "${run.state}" ${age(
        brokerNow() - run.reported_ms)}; it may have been killed.`}>silent</span>`
    : html`<span class=${`state ${KINDS[run.state] ?? ""}`} title=${run.error}>${run.state}</span>`;
}

function number(name, title, { bad = false } = {}) {
  return {
    name, title, sort: name, align: "right",
    cell: (row) => bad && row[name]
      ? html`<span class="state bad">${count(row[name])}</span>`
      : html`<span class=${row[name] ? "" : "zero"}>${count(row[name])}</span>`,
  };
}

function when(name, title) {
  return {
    name, title, sort: name, align: "right",
    cell: (row) => row[name]
      ? html`<span title=${moment(row[name])}>${age(brokerNow() - row[name])}</span>` : "–",
  };
}

const FACTS = [
  { name: "state", title: "State", sort: true, cell: (row) => html`<${State} run=${row} />` },
  number("records", "Records"),
  { ...number("put_aside", "Put aside", { bad: true }),
    hint: "Rows that could not be read, in this run" },
  number("failures", "Failures", { bad: true }),
  number("lag", "Lag"),
  when("started_ms", "Began"),
  {
    name: "ended_ms", title: "Took", align: "right",
    cell: (row) => (row.ended_ms ? duration(row.ended_ms - row.started_ms) : "–"),
  },
];

const ERROR = {
  name: "error", title: "Error", sort: false,
  cell: (row) => row.error && html`<span class="name">${row.error}</span>`,
};

function columnsOf(onOpen) {
  return [
    {
      name: "name", title: "Pipeline", sort: true,
      cell: (row) => html`<span class="name">${row.name}</span>
        <div class="soft">${row.pipeline} of ${row.user}</div>`,
    },
    {
      name: "stream", title: "Stream", sort: true, wide: true,
      cell: (row) => row.stream && html`<a class="name"
        href=${href(["streams", row.vhost, row.stream])}>${row.stream}</a>`,
    },
    ...FACTS,
    {
      name: "actions", title: "", label: "Runs", align: "right",
      cell: (row) => html`<${Button} kind="quiet" onClick=${() => onOpen(row)}
        label=${`Runs of ${row.name}`}>${count(row.runs)} ${row.runs === 1 ? "run" : "runs"}<//>`,
    },
  ];
}

const FILTERS = [
  {
    name: "state", title: "State",
    options: Object.keys(KINDS).map((value) => ({ value, label: value })),
  },
  {
    name: "with", title: "Rows",
    options: [{ value: "aside", label: "some put aside", where: "put_aside_in_runs>0" }],
  },
];

/** What the list of runs asks; null: of all virtual hosts. */
export function runsOf(vhost) {
  const path = vhost === null ? ["pipelines"] : ["pipelines", vhost];
  return { path, filters: FILTERS, sorted: "reported_ms", reverse: true };
}

/** @param {{list: object}} props of `runsOf`. */
export function PipelineRuns({ list }) {
  const [opened, setOpened] = useState(null);
  const [version, setVersion] = useState(0);
  return html`<${List} ...${list} columns=${columnsOf(setOpened)}
      caption="Runs of pipelines" version=${version}
      rowKey=${(row) => JSON.stringify([row.vhost, row.user, row.name])}
      empty=${html`<${Empty} title="No pipeline has run yet">
        Each run of <code>leporid pipeline run</code> reports itself here, and is kept.
        ${" "}<a href=${href(["pipelines"], { tab: "run" })}>How pipelines are run</a><//>`} />
    ${opened && html`<${History} of=${opened} onClose=${() => setOpened(null)}
      onGone=${() => setVersion((before) => before + 1)} />`}`;
}

function History({ of, onClose, onGone }) {
  const [asked, setAsked] = useState(false);
  const user = useUser();
  const { vhost, name, user: owner } = of;
  const why = owner === user.name ? "" : reasonNot(user, "administrator");
  const { data, error } = useData(["pipelines", vhost, name], { user: owner });
  if (asked) {
    return html`<${Confirm} open title="Forget this pipeline" yes="Forget" danger typed=${name}
      what="Its runs are forgotten. What it has written stays, and so does its position."
      onYes=${async () => {
        await remove(["pipelines", vhost, name], null, { user: owner });
        onGone();
        onClose();
      }} onClose=${() => setAsked(false)} />`;
  }
  return html`<${Dialog} open title=${`Runs of ${name}`} wide onClose=${onClose}>
    ${of.target && html`<p>It writes to <code class="name">${of.target}</code>.</p>`}
    ${error && html`<${Notice} kind="bad">${error.message}<//>`}
    ${data && html`<${Grid} rows=${data.runs} columns=${[...FACTS, ERROR]} caption="Runs"
      rowKey=${(row) => row.started_ms} />`}
    <div class="form-end"><${Button} kind="danger" why=${why} onClick=${() => setAsked(true)}
      >Forget this pipeline<//></div>
  <//>`;
}
