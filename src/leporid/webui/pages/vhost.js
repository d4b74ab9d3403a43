/* One virtual host: what it is for, limits, permissions, tracing, protection, and deleting it. */

import { post, put, remove } from "../core/api.js";
import { command } from "../core/commands.js";
import { useData } from "../core/data.js";
import { count, counted, rate } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { ofObject, useLive } from "../core/live.js";
import { go, href } from "../core/route.js";
import { reasonNot, useUser } from "../core/session.js";
import { statRate } from "../core/stats.js";
import { Button } from "../parts/button.js";
import { Confirm } from "../parts/confirm.js";
import { Dialog } from "../parts/dialog.js";
import { Empty } from "../parts/empty.js";
import { Figures } from "../parts/figures.js";
import { Form } from "../parts/form.js";
import { HistoryCharts } from "../parts/history_charts.js";
import { Limits } from "../parts/limits.js";
import { Notice } from "../parts/notice.js";
import { useOutcome } from "../parts/outcome.js";
import { Page } from "../parts/page.js";
import { PermissionList } from "../parts/permission_list.js";
import { TagLabels } from "../parts/tags.js";
import { TopicPermissions } from "../parts/topic_permissions.js";
import { VhostFields, vhostBody } from "../parts/vhost_fields.js";

const LIMITS = [
  ["max-connections", "Connections at a time"],
  ["max-queues", "Queues"],
];

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

/** The page #/vhosts/NAME. */
export default function Vhost({ parts, query }) {
  const name = parts[1];
  const why = reasonNot(useUser(), "administrator");
  const { data, error, reload } = useData(["vhosts", name], null, { every: 5000 });
  const limits = useData(["vhost-limits", name]);
  const [open, setOpen] = useState("");
  const outcome = useOutcome();
  const close = () => setOpen("");
  const done = (text) => {
    outcome.say(text);
    reload();
    limits.reload();
  };
  return html`<${Page} title=${`Virtual host ${name}`}
    head=${html`Virtual host <span class="name">${name}</span>`}
    actions=${data && html`<${Actions} vhost=${data} why=${why} onOpen=${setOpen}
      run=${outcome.run} reload=${reload} />`}
    cli=${command("vhosts show", [name])} http=${{ path: ["vhosts", name] }}>
    ${outcome.shown} ${error && html`<${Missing} error=${error} name=${name} />`}
    ${data &&
    html`<${Numbers} vhost=${data} />
      <${HistoryCharts} of=${{ kind: "vhost", name }} charts=${CHARTS} />
      <div class="columns"><${Facts} vhost=${data} />
      <${Limits} path=${["vhost-limits", name]} limits=${LIMITS} why=${why}
        values=${limits.data?.[0]?.value} onDone=${done} /></div>
      <${PermissionList} of=${{ vhost: name }} why=${why} onSaid=${outcome.say} />
      <${TopicPermissions} of=${{ vhost: name }} why=${why} onSaid=${outcome.say} />
      <${Edit} open=${open === "edit"} vhost=${data} onClose=${close} onDone=${done} />
      <${DeleteVhost} open=${open === "delete"} name=${name} onClose=${close} />`}
  <//>`;
}

function Missing({ error, name }) {
  if (error.status !== 404) {
    return html`<${Notice} kind="bad">${error.message}<//>`;
  }
  return html`<${Empty} title=${`There is no virtual host ${name}`}>
    <a href=${href(["vhosts"])}>All virtual hosts</a><//>`;
}

function Actions({ vhost, why, onOpen, run, reload }) {
  const { name, tracing } = vhost;
  const kept = isProtected(vhost);
  const trace = async () => {
    await run(
      () => put(["vhosts", name], { tracing: !tracing }),
      tracing ? "Messages are no longer traced." : TRACED,
    );
    reload();
  };
  const protect = async () => {
    const path = ["vhosts", name, "deletion", "protection"];
    await run(
      () => (kept ? remove(path) : post(path)),
      kept ? "It may be deleted again." : "Nobody can delete it now.",
    );
    reload();
  };
  const whyKept = kept ? "It is protected from deletion." : "";
  return html`<${Button} why=${why} onClick=${() => onOpen("edit")}>Edit<//>
    <${Button} why=${why} onClick=${trace}>${tracing ? "Stop tracing" : "Trace messages"}<//>
    <${Button} why=${why} onClick=${protect}>${kept ? "Unprotect" : "Protect"}<//>
    <${Button} kind="danger" why=${why || whyKept} onClick=${() => onOpen("delete")}
      >Delete virtual host<//>`;
}

const TRACED =
  "A copy of each message goes to the exchange amq.rabbitmq.trace until this is turned off.";

function isProtected(vhost) {
  return vhost.metadata?.protected_from_deletion === true;
}

function Numbers({ vhost }) {
  const { name } = vhost;
  const live = ofObject(useLive([["vhost", name]]), "vhost", undefined, name);
  const now = { ...vhost, ...live };
  const rateOf = (field) => rate(live?.rates[field] ?? statRate(vhost, field));
  return html`<${Figures}
    items=${[
      { name: "Ready", value: count(now.messages_ready) },
      { name: "Unacked", value: count(now.messages_unacknowledged) },
      { name: "Total", value: count(now.messages) },
      { name: "Published", value: rateOf("publish") },
      { name: "Delivered", value: rateOf("deliver_get") },
      { name: "Acknowledged", value: rateOf("ack") },
      { name: "Queues", value: count(live?.queues), href: href(["queues"], { vhost: name }) },
      { name: "Consumers", value: count(live?.consumers) },
    ]}
  />`;
}

function Facts({ vhost }) {
  const { name } = vhost;
  const of = (page, title) => html`<a href=${href([page], { vhost: name })}>${title}</a>`;
  return html`<section class="box"><h2>Facts</h2><dl class="key">
    <dt>Description</dt><dd>${vhost.description || "–"}</dd>
    <dt>Tags</dt><dd><${TagLabels} tags=${vhost.tags} /></dd>
    <dt>Default queue type</dt>
    <dd>${vhost.default_queue_type === "undefined" ? "none" : vhost.default_queue_type}</dd>
    <dt>Tracing</dt><dd>${vhost.tracing ? "on" : "off"}</dd>
    <dt>Deletion</dt><dd>${isProtected(vhost) ? "protected" : "allowed"}</dd>
    <dt>In it</dt>
    <dd>${of("queues", "Queues")} · ${of("exchanges", "Exchanges")} · ${" "}
      ${of("connections", "Connections")} · ${of("policies", "Policies")} · ${" "}
      <a href=${href(["definitions"], { vhost: name })}>Definitions</a></dd>
  </dl></section>`;
}

function Edit({ open, vhost, onClose, onDone }) {
  const [changed, setChanged] = useState(null);
  const now = {
    description: vhost.description,
    tags: vhost.tags.join(","),
    default_queue_type: vhost.default_queue_type === "undefined" ? "" : vhost.default_queue_type,
  };
  const given = changed ?? now;
  const close = () => {
    setChanged(null);
    onClose();
  };
  const save = async () => {
    await put(["vhosts", vhost.name], vhostBody(given));
    onDone("The virtual host is changed.");
    close();
  };
  return html`<${Dialog} open=${open} title="Edit virtual host" onClose=${close}>
    <${Form} onSubmit=${save} submit="Save" onCancel=${close}>
      <${VhostFields} given=${given} onChange=${(change) => setChanged(change(given))} />
    <//>
  <//>`;
}

function DeleteVhost({ open, name, onClose }) {
  // How many queues go with it.
  const { data } = useData(open ? ["queues", name] : null, {
    page: 1,
    page_size: 1,
    columns: "name,messages",
  });
  const queues = data ? counted(data.total_count, "queue") : "All queues";
  return html`<${Confirm} open=${open} title="Delete virtual host" danger typed=${name}
    what=${`${queues} with all messages, all exchanges, policies and permissions in it are gone, ` +
    "and its connections are closed. This cannot be undone."}
    onClose=${onClose}
    onYes=${async () => {
      await remove(["vhosts", name]);
      go(["vhosts"]);
    }} />`;
}
