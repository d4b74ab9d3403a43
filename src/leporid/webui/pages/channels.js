/* Channels: the list. */

import { html } from "../core/html.js";
import { linesOf } from "../core/list_query.js";
import { href } from "../core/route.js";
import { useVhost } from "../core/vhost.js";
import { channelColumns } from "../parts/channel_columns.js";
import { Empty } from "../parts/empty.js";
import { List } from "../parts/list.js";
import { Page } from "../parts/page.js";

const FILTERS = [
  {
    name: "mode",
    title: "Mode",
    options: [
      { value: "confirms", label: "confirms", where: "confirm=true" },
      { value: "transactions", label: "transactions", where: "transactional=true" },
    ],
  },
  {
    name: "with",
    title: "Holds",
    options: [
      { value: "unacked", label: "unacked", where: "messages_unacknowledged>0" },
      { value: "unconfirmed", label: "unconfirmed", where: "messages_unconfirmed>0" },
      { value: "consumers", label: "consumers", where: "consumer_count>0" },
    ],
  },
];

export default function Channels({ query }) {
  const vhost = useVhost();
  const path = vhost === null ? ["channels"] : ["vhosts", vhost, "channels"];
  const list = { path, filters: FILTERS };
  return html`<${Page}
    title="Channels"
    ...${linesOf("channels", list, query, vhost)}
  >
    <${List}
      ...${list}
      columns=${channelColumns({ vhost })}
      rowKey=${(row) => row.name}
      caption="Channels"
      empty=${html`<${Empty} title="No channels">
        Clients open channels on their connections, to publish and to consume. The addresses that
        they connect to are on the <a href=${href([])}>overview</a>.
      <//>`}
    />
  <//>`;
}
