/* Exchanges: the list, and declaring one. */

import { html, useState } from "../core/html.js";
import { linesOf } from "../core/list_query.js";
import { exchangeSegment, go, href } from "../core/route.js";
import { useVhost } from "../core/vhost.js";
import { Badges } from "../parts/badges.js";
import { Button } from "../parts/button.js";
import { rateColumn, vhostColumn } from "../parts/cells.js";
import { DeclareExchange } from "../parts/declare_exchange.js";
import { Empty } from "../parts/empty.js";
import { List } from "../parts/list.js";
import { Page } from "../parts/page.js";

function columnsOf(vhost) {
  return [
    {
      name: "name",
      title: "Name",
      sort: true,
      cell: (row) =>
        html`<a class="name" href=${href(["exchanges", row.vhost, exchangeSegment(row.name)])}
          >${row.name || "(default)"}</a>`,
    },
    ...vhostColumn(vhost),
    { name: "type", title: "Type", sort: true },
    {
      name: "features",
      title: "Features",
      wide: true,
      cell: (row) => html`<${Badges} object=${row} />`,
    },
    rateColumn("publish_in", "In", "Messages that were published to it"),
    rateColumn("publish_out", "Out", "Messages that it gave to queues and exchanges"),
  ];
}

const TYPES = ["direct", "fanout", "topic", "headers", "x-delayed-message"];
const FILTERS = [
  { name: "type", title: "Type", options: TYPES.map((value) => ({ value, label: value })) },
  {
    name: "durable",
    title: "Durable",
    options: [{ value: "true", label: "yes" }, { value: "false", label: "no" }],
  },
];

export default function Exchanges({ query }) {
  const vhost = useVhost();
  const [declaring, setDeclaring] = useState(false);
  const path = vhost === null ? ["exchanges"] : ["exchanges", vhost];
  const list = { path, filters: FILTERS };
  const declared = (place, name) => {
    setDeclaring(false);
    go(["exchanges", place, name]);
  };
  return html`<${Page}
    title="Exchanges"
    actions=${html`<${Button} kind="main" onClick=${() => setDeclaring(true)}
      >Declare an exchange<//>`}
    ...${linesOf("exchanges", list, query, vhost)}
  >
    <${List}
      ...${list}
      columns=${columnsOf(vhost)}
      rowKey=${(row) => `${row.vhost}\n${row.name}`}
      caption="Exchanges"
      empty=${html`<${Empty} title="No exchanges">
        Your user sees none: it may have no permissions in any virtual host.
      <//>`}
    />
    <${DeclareExchange} open=${declaring} vhost=${vhost} onClose=${() => setDeclaring(false)}
      onDone=${declared} />
  <//>`;
}
