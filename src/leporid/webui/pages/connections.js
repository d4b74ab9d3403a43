/* Connections: the list. */

import { byteRate, moment } from "../core/format.js";
import { html } from "../core/html.js";
import { linesOf } from "../core/list_query.js";
import { href } from "../core/route.js";
import { useVhost } from "../core/vhost.js";
import { countColumn, vhostColumn } from "../parts/cells.js";
import { ConnectionState } from "../parts/connection_state.js";
import { Empty } from "../parts/empty.js";
import { List } from "../parts/list.js";
import { Page } from "../parts/page.js";

const FIELDS = [
  "name", "user_provided_name", "vhost", "user", "state", "ssl", "channels", "recv_oct_details",
  "send_oct_details", "connected_at", "client_properties",
].join(",");

function octetsColumn(name, title, hint) {
  return {
    name,
    title,
    hint,
    sort: `${name}_details.rate`,
    align: "right",
    cell: (row) => {
      const value = row[`${name}_details`]?.rate ?? 0;
      return html`<span class=${value ? "" : "zero"}>${byteRate(value)}</span>`;
    },
  };
}

function client(row) {
  const { product, version, platform } = row.client_properties ?? {};
  const text = [product, version].filter((each) => typeof each === "string").join(" ");
  return html`<span class="name" title=${typeof platform === "string" ? platform : undefined}
    >${text}</span>`;
}

function columnsOf(vhost) {
  return [
    {
      name: "name",
      title: "Name",
      sort: true,
      cell: (row) =>
        html`<a class="name ends" href=${href(["connections", row.name])}>${row.name}</a>
          ${row.user_provided_name &&
          html`<div class="soft"><span class="name">${row.user_provided_name}</span></div>`}`,
    },
    ...vhostColumn(vhost),
    {
      name: "user",
      title: "User",
      sort: true,
      under: true,
      cell: (row) => html`<a class="name" href=${href(["users", row.user])}>${row.user}</a>`,
    },
    {
      name: "state",
      title: "State",
      sort: true,
      cell: (row) => html`<${ConnectionState} state=${row.state} />${row.ssl &&
        html` <span class="badge">TLS</span>`}`,
    },
    { ...countColumn("channels", "Channels"), wide: true },
    { ...octetsColumn("recv_oct", "From client"), under: true },
    { ...octetsColumn("send_oct", "To client"), under: true },
    { name: "client", title: "Client", wide: true, cell: client },
    {
      name: "connected_at",
      title: "Since",
      sort: true,
      wide: true,
      cell: (row) => html`<span class="moment">${moment(row.connected_at)}</span>`,
    },
  ];
}

const FILTERS = [
  {
    name: "state",
    title: "State",
    options: ["running", "blocked", "closing"].map((value) => ({ value, label: value })),
  },
  {
    name: "ssl",
    title: "TLS",
    options: [{ value: "true", label: "yes" }, { value: "false", label: "no" }],
  },
];

export default function Connections({ query }) {
  const vhost = useVhost();
  const path = vhost === null ? ["connections"] : ["vhosts", vhost, "connections"];
  const list = { path, query: { columns: FIELDS }, filters: FILTERS };
  return html`<${Page}
    title="Connections"
    ...${linesOf("connections", list, query, vhost)}
  >
    <${List}
      ...${list}
      columns=${columnsOf(vhost)}
      rowKey=${(row) => row.name}
      caption="Connections"
      empty=${html`<${Empty} title="No connections">
        ${vhost === null ? "No client is connected." : "No client is in this virtual host."}
        ${" "}The addresses that clients connect to are on the
        ${" "}<a href=${href([])}>overview</a>.
      <//>`}
    />
  <//>`;
}
