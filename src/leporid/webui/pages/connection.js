/* One connection: who it is, what blocks it, its channels; closing it with a reason. */

import { remove } from "../core/api.js";
import { command } from "../core/commands.js";
import { useData } from "../core/data.js";
import { byteRate, bytes, count, moment } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { ofObject, useLive } from "../core/live.js";
import { go, href } from "../core/route.js";
import { may, reasonNot, useUser } from "../core/session.js";
import { Button } from "../parts/button.js";
import { Confirm } from "../parts/confirm.js";
import { ConnectionState } from "../parts/connection_state.js";
import { channelColumns } from "../parts/channel_columns.js";
import { Empty } from "../parts/empty.js";
import { Figures } from "../parts/figures.js";
import { Field } from "../parts/form.js";
import { HistoryCharts } from "../parts/history_charts.js";
import { JsonTree } from "../parts/json_tree.js";
import { Key } from "../parts/key.js";
import { List } from "../parts/list.js";
import { Notice } from "../parts/notice.js";
import { Page } from "../parts/page.js";

const EVERY_MS = 5000;
const ALARMS_EVERY_MS = 10_000;
const REASON_MAX = 200;
const CHARTS = [
  {
    title: "Data",
    unit: "octets",
    lines: [["recv_oct", "From client"], ["send_oct", "To client"]],
  },
  { title: "Waits to be sent", unit: "bytes", lines: [["send_pend", "Waits"]] },
];

/** Why the broker does not read from this connection. */
function Blocked({ user }) {
  const { data } = useData(may(user, "monitoring") ? ["nodes"] : null, {}, {
    every: ALARMS_EVERY_MS,
  });
  const node = data?.[0];
  const alarms = [
    node?.mem_alarm &&
      `memory: ${bytes(node.mem_used)} are used, and the limit is ${bytes(node.mem_limit)}`,
    node?.disk_free_alarm &&
      `disk: ${bytes(node.disk_free)} are free, and ` +
        `at least ${bytes(node.disk_free_limit)} are needed`,
  ].filter(Boolean);
  return html`<${Notice} kind="warn">
    <strong>This connection is blocked:</strong> it wants to publish, and the broker reads
    nothing more of it until the alarm ends.
    ${alarms.length > 0 && html` The alarm is about ${alarms.join("; ")}.`}
    ${" "}Consumers go on, and free memory and disk by taking messages.
    ${" "}<a href=${href(["queues"], { sort: "messages", reverse: "1" })}>The longest queues</a>
  <//>`;
}

function Close({ name, owner }) {
  const user = useUser();
  const [asked, setAsked] = useState(false);
  const [reason, setReason] = useState("");
  // A header has no other characters.
  const wrong = /^[\x20-\x7e]*$/.test(reason) ? "" : "Only letters, digits and signs of ASCII.";
  const why = owner === user.name ? "" : reasonNot(user, "administrator");
  const close = async () => {
    if (wrong) {
      throw new Error(wrong);
    }
    await remove(["connections", name], null, null, reason ? { "X-Reason": reason } : {});
    go(["connections"]);
  };
  return html`<${Button} kind="danger" why=${why} onClick=${() => setAsked(true)}
      >Close the connection<//>
    <${Confirm} open=${asked} title="Close this connection" yes="Close it" danger=${true}
      what="Its channels and consumers end; what it has not settled goes back to its queues. Most
        clients connect again at once." onYes=${close} onClose=${() => setAsked(false)}>
      <${Field} label="Reason, which the client is told" name="reason" value=${reason}
        onInput=${setReason} maxlength=${REASON_MAX} error=${wrong}
        placeholder="Closed via management plugin" />
    <//>`;
}

function Facts({ found }) {
  const tls = found.ssl
    ? [found.ssl_protocol, found.ssl_cipher].filter(Boolean).join(", ") || "yes"
    : "no";
  return html`<${Key}
    rows=${[
      ["User", html`<a class="name" href=${href(["users", found.user])}>${found.user}</a>`],
      ["Virtual host", html`<span class="name">${found.vhost}</span>`],
      ["Name by the client", found.user_provided_name &&
        html`<span class="name">${found.user_provided_name}</span>`],
      ["Address", `${found.peer_host}, port ${found.peer_port}`],
      ["To", `${found.host}, port ${found.port}`],
      ["Protocol", found.protocol],
      ["TLS", tls],
      ["Certificate", found.peer_cert_subject],
      ["Valid", found.peer_cert_validity],
      ["Login by", found.auth_mechanism],
      ["Since", moment(found.connected_at)],
      ["Heartbeat", found.timeout ? `${found.timeout} s` : "none"],
      ["Largest frame", bytes(found.frame_max)],
      ["Channels at most", count(found.channel_max)],
    ]}
  />`;
}

export default function Connection({ parts, query }) {
  const name = parts[1];
  const user = useUser();
  const path = ["connections", name];
  const { data: found, error } = useData(path, {}, { every: EVERY_MS });
  const live = ofObject(useLive([["connection", name]]), "connection", undefined, name);
  const head = html`<span class="name">${name}</span> <span class="crumb">connection</span>`;
  if (!found) {
    return html`<${Page} title=${name} head=${head}>
      ${error &&
      html`<${Notice} kind="warn">${error.status === 404
        ? html`This connection has ended. <a href=${href(["connections"])}>All connections</a>`
        : error.message}<//>`}
    <//>`;
  }
  return html`<${Page}
    title=${name}
    head=${html`${head} <${ConnectionState} state=${found.state} />`}
    actions=${html`<${Close} name=${name} owner=${found.user} />`}
    cli=${["show", "close"].map((verb) => command(`connections ${verb}`, [name]))}
    http=${[{ path }, { path: [...path, "channels"] }, { method: "DELETE", path }]}
  >
    ${error && html`<${Notice} kind="warn">${error.status === 404
      ? "This connection has ended."
      : error.message}<//>`}
    ${found.state === "blocked" && html`<${Blocked} user=${user} />`}
    <${Figures}
      items=${[
        { name: "Channels", value: count(live?.channels ?? found.channels) },
        {
          name: "From client",
          value: byteRate(live?.rates.recv_oct ?? found.recv_oct_details?.rate),
        },
        {
          name: "To client",
          value: byteRate(live?.rates.send_oct ?? found.send_oct_details?.rate),
        },
        { name: "Received", value: bytes(found.recv_oct) },
        { name: "Sent", value: bytes(found.send_oct) },
        { name: "Waits to be sent", value: bytes(live?.send_pend ?? found.send_pend) },
      ]}
    />
    <${HistoryCharts} of=${{ kind: "connection", name }} charts=${CHARTS} />
    <div class="columns">
      <section class="box"><h2>Facts</h2><${Facts} found=${found} /></section>
      <section class="box"><h2>What the client says of itself</h2>
        <${JsonTree} value=${found.client_properties ?? {}} /></section>
    </div>
    <section class="stack">
      <h2>Channels</h2>
      <${List} path=${[...path, "channels"]} filterable=${false} caption="Channels"
        columns=${channelColumns({ ofConnection: true })} rowKey=${(row) => row.name}
        empty=${html`<${Empty} title="No channels">The client has opened none yet.
          Clients do so to publish and to consume.<//>`} />
    </section>
  <//>`;
}
