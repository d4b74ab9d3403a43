/* What is picked in the topology graph: its figures, and each of its edges with keys and filters.
   Must not know how the graph is drawn. */

import { html } from "../core/html.js";
import { href } from "../core/route.js";
import { count, rate } from "../core/format.js";
import { Button } from "./button.js";
import { partsOf } from "./topology_names.js";

const SHOWN = 12;

/**
 * @param {{vhost: string, graph: object, node: object, unfold: Function, close: Function}} props
 */
export function TopologyDetail({ vhost, graph, node, unfold, close }) {
  const incoming = graph.edges.filter((edge) => edge.to === node.id);
  const outgoing = graph.edges.filter((edge) => edge.from === node.id);
  return html`
    <aside class="topology-detail" aria-label="What is picked">
      <header>
        <h2>${node.title}</h2>
        <span class="soft">${kindOf(node)}</span>
        ${node.kind === "group" && html`<${Button} onClick=${() => unfold(node)}>Unfold<//>`}
        ${node.kind !== "group" && !node.missing && html`
          <a class="button" href=${href(partsOf(vhost, node))}>Open</a>`}
        <${Button} onClick=${close} label="Close">×<//>
      </header>
      <p class="topology-facts">
        ${node.messages !== undefined && html`<span><b>${count(node.messages)}</b> messages</span>`}
        ${node.consumers !== undefined &&
          html`<span><b>${count(node.consumers)}</b> consumers</span>`}
        <span><b>${rate(node.rateIn)}</b> in</span><span><b>${rate(node.rateOut)}</b> out</span>
      </p>
      ${node.missing && html`<p class="state bad">
        No exchange of that name is declared: what should go there is lost.</p>`}
      <div class="topology-edges">
        <${Edges} title="From" edges=${incoming} end="from" graph=${graph} />
        <${Edges} title="To" edges=${outgoing} end="to" graph=${graph} />
      </div>
      ${node.names && html`<p class="soft">${node.names.slice(0, SHOWN).join(", ")}
        ${node.names.length > SHOWN && ` and ${count(node.names.length - SHOWN)} more`}</p>`}
    </aside>`;
}

function kindOf(node) {
  if (node.kind === "group") return `${count(node.count)} ${node.of}s with like names`;
  if (node.kind === "exchange") return `${node.type} exchange`;
  return node.type === "stream" ? "stream" : `${node.type} queue`;
}

function Edges({ title, edges, end, graph }) {
  if (!edges.length) return null;
  return html`<section aria-label=${title}>
    <h3>${title}</h3>
    <ul>
      ${edges.slice(0, SHOWN).map((edge) => html`<li key=${edge.key}>
        <span>${graph.nodes.get(edge[end]).title}</span>
        ${edge.kind !== "binding" && html`<span class="soft"> ${
          edge.kind === "dead" ? "dead letters" : "alternate"}</span>`}
        ${edge.rate > 0 && html`<span class="soft"> ${rate(edge.rate)}</span>`}
        ${edge.bindings.slice(0, SHOWN).map((one) => html`<div class="topology-binding">
          ${one.key && html`<code>${one.key}</code>`}
          ${one.filter && html` <span>▽ <code>${one.filter}</code></span>`}
        </div>`)}
      </li>`)}
      ${edges.length > SHOWN && html`<li class="soft">${count(edges.length - SHOWN)} more</li>`}
    </ul>
  </section>`;
}
