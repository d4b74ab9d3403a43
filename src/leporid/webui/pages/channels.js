/* Channels: the list. */

import { html } from "../core/html.js";
import { useVhost } from "../core/vhost.js";
import { channelColumns } from "../parts/channel_columns.js";
import { Empty } from "../parts/empty.js";
import { List } from "../parts/list.js";
import { Page, quoted } from "../parts/page.js";

export default function Channels({ query }) {
  const vhost = useVhost();
  const path = vhost === null ? ["channels"] : ["vhosts", vhost, "channels"];
  return html`<${Page}
    title="Channels"
    cli=${["leporid channels list", query.name && `--name ${quoted(query.name)}`]
      .filter(Boolean).join(" ")}
    http=${{ path, query: { page: query.page ?? 1, name: query.name, sort: query.sort } }}
  >
    <${List}
      path=${path}
      columns=${channelColumns({ vhost })}
      rowKey=${(row) => row.name}
      caption="Channels"
      empty=${html`<${Empty} title="No channels">
        Clients open channels on their connections, to publish and to consume.
      <//>`}
    />
  <//>`;
}
