/* What the broker is and has: its name and version, feature flags, extensions, deprecated features.

   Must not know what a feature does. */

import { put } from "../core/api.js";
import { useData } from "../core/data.js";
import { html, useEffect, useState } from "../core/html.js";
import { reasonNot, useUser } from "../core/session.js";
import { Field, Form } from "../parts/form.js";
import { Grid } from "../parts/grid.js";
import { Key } from "../parts/key.js";
import { Notice } from "../parts/notice.js";
import { useOutcome } from "../parts/outcome.js";
import { Page } from "../parts/page.js";

const FLAGS = [
  { name: "name", title: "Feature flag", cell: (row) => html`<code>${row.name}</code>` },
  {
    name: "state",
    title: "State",
    cell: (row) => html`<span class="state good">${row.state}</span>`,
  },
  { name: "stability", title: "Stability" },
  { name: "provided_by", title: "By" },
];

const NAMED = [
  { name: "name", title: "Name" },
  { name: "desc", title: "What it is" },
];

/** The page #/feature-flags. */
export default function Features() {
  const user = useUser();
  const why = reasonNot(user, "administrator");
  const overview = useData(["overview"], {
    columns: "cluster_name,product_name,product_version,rabbitmq_version,node",
  });
  const asked = (path) => (why ? null : path);
  const flags = useData(asked(["feature-flags"]));
  const deprecated = useData(asked(["deprecated-features"]));
  const extensions = useData(["extensions"]);
  const outcome = useOutcome();
  return html`<${Page} title="Features" cli="leporid status"
    http=${[{ path: ["feature-flags"] }, { path: ["extensions"] }]}>
    ${outcome.shown}
    <section class="box stack">
      <h2>This broker</h2>
      ${overview.data && html`<${Facts} found=${overview.data} />`}
      <${ClusterName} name=${overview.data?.cluster_name} why=${why}
        onDone=${(text) => {
          outcome.say(text);
          overview.reload();
        }} />
    </section>
    <section class="box stack">
      <h2>Feature flags</h2>
      <p class="soft">RabbitMQ's; clients look at them. All of them are on, as what each stands for
        is here, or nothing that one node could have.</p>
      ${why && html`<p class="soft">${why}</p>`}
      ${flags.error && html`<${Notice} kind="bad">${flags.error.message}<//>`}
      ${flags.data &&
      html`<${Grid} rows=${flags.data} columns=${FLAGS} caption="Feature flags" prefix="flags-"
        rowKey=${(row) => row.name} />`}
    </section>
    <section class="box stack">
      <h2>Deprecated features and extensions</h2>
      <${Some} found=${deprecated.data} none="No deprecated feature."
        caption="Deprecated features" />
      <${Some} found=${extensions.data} none="No extension of the interface."
        caption="Extensions" />
    </section>
  <//>`;
}

function Some({ found, none, caption }) {
  if (!found) {
    return null;
  }
  return html`<${Grid} rows=${found} columns=${NAMED} caption=${caption}
    rowKey=${(row) => row.name} empty=${html`<p class="soft">${none}</p>`} />`;
}

function Facts({ found }) {
  return html`<${Key} rows=${[
    ["Product", `${found.product_name} ${found.product_version}`],
    ["Interface of", `RabbitMQ ${found.rabbitmq_version}`],
    ["Node", found.node],
  ]} />`;
}

function ClusterName({ name, why, onDone }) {
  const [text, setText] = useState("");
  useEffect(() => setText(name ?? ""), [name]);
  const save = async () => {
    await put(["cluster-name"], { name: text });
    onDone(`The broker is called ${text}.`);
  };
  return html`<${Form} inline onSubmit=${save} submit="Rename" kind="plain" why=${why}>
    <${Field} label="What it is called" name="cluster-name" value=${text} onInput=${setText}
      required autocomplete="off" />
  <//>`;
}
