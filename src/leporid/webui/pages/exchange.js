/* One exchange: what comes in and goes out, its graph, bindings and settings, publishing. */

import { remove } from "../core/api.js";
import { command, inVhost } from "../core/commands.js";
import { useData } from "../core/data.js";
import { count, rate } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { ofObject, useLive } from "../core/live.js";
import { go, href, setQuery } from "../core/route.js";
import { useReasonNotTo } from "../core/session.js";
import { statCount, statRate } from "../core/stats.js";
import { ArgumentTable } from "../parts/arguments.js";
import { Badges } from "../parts/badges.js";
import { BindForm } from "../parts/bind_form.js";
import { BindingList, bindingLines } from "../parts/bindings.js";
import { Button } from "../parts/button.js";
import { Confirm } from "../parts/confirm.js";
import { Empty } from "../parts/empty.js";
import { Figures } from "../parts/figures.js";
import { HistoryCharts } from "../parts/history_charts.js";
import { Lazy } from "../parts/lazy.js";
import { MissingExchange } from "../parts/missing_exchange.js";
import { Notice } from "../parts/notice.js";
import { Page } from "../parts/page.js";
import { PublishForm } from "../parts/publish.js";
import { Tabs } from "../parts/tabs.js";

const EVERY_MS = 5000;
const topology = () => import("../parts/topology.js").then((module) => module.TopologyGraph);

const CHARTS = [
  { title: "Rates", unit: "rate", lines: [["publish_in", "In"], ["publish_out", "Out"]] },
];

function Overview({ vhost, name }) {
  return html`<div class="stack">
    <section class="box">
      <h2>Where messages go</h2>
      <${Lazy} load=${topology} props=${{ vhost, exchange: name }} />
    </section>
    <${HistoryCharts} of=${{ kind: "exchange", vhost, name }} charts=${CHARTS} />
  </div>`;
}

const outOf = (path) => ({ path: [...path, "bindings", "source"], prefix: "out-" });
const into = (path) => ({ path: [...path, "bindings", "destination"], prefix: "in-" });

function linesOfBindings(path, vhost, name, query) {
  const isDefault = name === "amq.default";
  const found = [bindingLines(outOf(path), { source: isDefault ? "" : name }, query, vhost)];
  if (!isDefault) {
    const ends = { destination: name, destination_type: "exchange" };
    found.push(bindingLines(into(path), ends, query, vhost));
  }
  return { cli: found.map(({ cli }) => cli), http: found.map(({ http }) => http) };
}

function Bindings({ path, vhost, name }) {
  const [version, setVersion] = useState(0);
  const changed = () => setVersion((before) => before + 1);
  return html`<div class="stack">
    <section class="stack">
      <h2>From this exchange</h2>
      <${BindingList} ...${outOf(path)} shows="destination"
        version=${version} onChange=${changed} caption="Bindings from this exchange"
        empty=${html`<${Empty} title="No bindings">
          Messages that come here go nowhere until a queue is bound.
          ${name === "amq.default"
            ? html` Declare a <a href=${href(["queues"])}>queue</a>: its name is bound here.`
            : " Bind one below."}<//>`} />
    </section>
    ${name !== "amq.default" &&
    html`<section class="box">
        <h2>Bind from here</h2>
        <${BindForm} vhost=${vhost} source=${name} onDone=${changed} />
      </section>
      <section class="stack">
        <h2>To this exchange</h2>
        <${BindingList} ...${into(path)} shows="source"
          version=${version} onChange=${changed} caption="Bindings to this exchange"
          empty=${html`<${Empty} title="No exchange is bound to this one">
            Publishers send to it directly. Bind it on the page of
            ${" "}<a href=${href(["exchanges"])}>another exchange</a>.<//>`} />
      </section>`}
  </div>`;
}

/** Whether the broker declares it, and does not let it be deleted. */
const isPredeclared = (name) => name.startsWith("amq.");

function Delete({ path, name }) {
  const [asked, setAsked] = useState(false);
  const mayNot = useReasonNotTo("configure", path[1], name);
  const destroy = async () => {
    await remove(path);
    go(["exchanges"]);
  };
  return html`<${Button} kind="danger" onClick=${() => setAsked(true)}
      why=${isPredeclared(name) ? "The exchanges amq.… belong to the broker." : mayNot}>Delete<//>
    <${Confirm} open=${asked} title="Delete this exchange" yes="Delete" danger=${true} typed=${name}
      what="The exchange and its bindings will be gone. Who publishes to it then is refused."
      onYes=${destroy} onClose=${() => setAsked(false)} />`;
}

export default function Exchange({ parts, query }) {
  const [, vhost, name] = parts;
  const path = ["exchanges", vhost, name];
  const { data: exchange, error } = useData(path, {}, { every: EVERY_MS });
  const live = ofObject(useLive([["exchange", vhost, name]]), "exchange", vhost, name);
  const shown = name === "amq.default" ? "(default)" : name;
  const head = html`<span class="name">${shown}</span>${" "}
    <span class="crumb">${exchange?.type} exchange in <span class="name">${vhost}</span></span>`;
  if (!exchange) {
    return html`<${Page} title=${shown} head=${head}>
      ${error &&
      html`<${Notice} kind="warn">${error.status === 404
        ? html`There is no such exchange. <a href=${href(["exchanges"])}>All exchanges</a>`
        : error.message}<//>`}
    <//>`;
  }
  const rates = live?.rates ?? {};
  const tabs = [
    { id: "overview", title: "Overview" },
    { id: "bindings", title: "Bindings" },
    { id: "settings", title: "Settings" },
    { id: "publish", title: "Publish" },
  ];
  const tab = query.tab ?? "overview";
  const panels = {
    bindings: () => html`<${Bindings} path=${path} vhost=${vhost} name=${name} />`,
    settings: () => html`<${ArgumentTable} object=${exchange} />`,
    publish: () => html`<section class="box"><${PublishForm} vhost=${vhost} exchange=${name} />
    </section>`,
  };
  const show = panels[tab];
  const line = (verb) => command(`exchanges ${verb}`, [name], inVhost(vhost));
  const keeps = isPredeclared(name);
  const lines = {
    overview: () => ({
      cli: (keeps ? ["show"] : ["show", "delete"]).map(line),
      http: [{ path }, !keeps && { method: "DELETE", path }].filter(Boolean),
    }),
    bindings: () => linesOfBindings(path, vhost, name, query),
    settings: () => ({ cli: line("show"), http: { path } }),
  };
  return html`<${Page}
    title=${shown}
    head=${html`${head} <${Badges} object=${exchange} />`}
    actions=${html`<${Delete} path=${path} name=${name} />`}
    ...${lines[show ? tab : "overview"]?.()}
  >
    ${error && html`<${Notice} kind="bad">${error.message}<//>`}
    <${MissingExchange} vhost=${vhost} kind="exchange" name=${name} />
    <${Figures}
      items=${[
        { name: "In", value: rate(rates.publish_in ?? statRate(exchange, "publish_in")) },
        { name: "Out", value: rate(rates.publish_out ?? statRate(exchange, "publish_out")) },
        { name: "Came in all", value: count(statCount(exchange, "publish_in")) },
        { name: "Went out in all", value: count(statCount(exchange, "publish_out")) },
      ]}
    />
    <${Tabs} tabs=${tabs} current=${show ? tab : "overview"}
      onPick=${(id) => setQuery({ tab: id === "overview" ? null : id }, { replace: true })} />
    <div role="tabpanel" aria-label=${tab}>
      ${show ? show() : html`<${Overview} vhost=${vhost} name=${name} />`}
    </div>
  <//>`;
}
