/* The topology as a table: each edge a row, for screen readers and for who likes lists.
   Must not know how edges are drawn. */

import { html } from "../core/html.js";
import { href } from "../core/route.js";
import { rate } from "../core/format.js";
import { Grid } from "./grid.js";
import { Empty } from "./empty.js";
import { partsOf } from "./topology_names.js";

const KINDS = { binding: "binding", dead: "dead letters", alternate: "alternate" };

/** @param {{vhost: string, graph: object, find: string}} props `find`: a part of a name. */
export function TopologyList({ vhost, graph, find }) {
  const wanted = find.toLowerCase();
  const rows = [];
  for (const edge of graph.edges) {
    const from = graph.nodes.get(edge.from);
    const to = graph.nodes.get(edge.to);
    const names = `${from.title}\n${to.title}`.toLowerCase();
    if (wanted && !names.includes(wanted)) continue;
    const bindings = edge.bindings.length ? edge.bindings : [{ key: "", filter: "" }];
    bindings.forEach((one, at) => rows.push({ id: `${edge.key} ${at}`, edge, from, to, one }));
  }
  const columns = [
    { name: "from", title: "From", value: (row) => row.from.title,
      cell: (row) => html`<${Name} vhost=${vhost} node=${row.from} />` },
    { name: "kind", title: "By", value: (row) => KINDS[row.edge.kind],
      cell: (row) => KINDS[row.edge.kind] },
    { name: "key", title: "Routing key", value: (row) => row.one.key, cell: (row) => row.one.key },
    { name: "filter", title: "Filter", value: (row) => row.one.filter,
      cell: (row) => row.one.filter },
    { name: "to", title: "To", value: (row) => row.to.title,
      cell: (row) => html`<${Name} vhost=${vhost} node=${row.to} />` },
    {
      name: "rate", title: "Rate", align: "right", value: (row) => row.edge.rate ?? 0,
      cell: (row) => (row.edge.rate === null ? "" : rate(row.edge.rate)),
    },
  ];
  return html`<${Grid} prefix="list-" rows=${rows} columns=${columns} rowKey=${(row) => row.id}
    caption="Bindings, dead-letter and alternate exchanges"
    empty=${html`<${Empty} title="No edges">
      Nothing is bound${find && " under that name"}. Bind a queue on the page of an
      ${" "}<a href=${href(["exchanges"])}>exchange</a>.<//>`} />`;
}

function Name({ vhost, node }) {
  if (node.missing) return html`<span class="state bad">${node.title} (missing)</span>`;
  return html`<a href=${href(partsOf(vhost, node))}>${node.title}</a>
    <span class="soft"> ${node.type === "stream" ? "stream" : node.kind}</span>`;
}
