/* The topology graph: exchanges, bindings, queues, dead-letter and alternate edges of a virtual
   host, or of what is near one object. Draws what topology-model and topology-layout compute.
   Must not know which page it stands on. */

import { html, useEffect, useMemo, useRef, useState } from "../core/html.js";
import { useData } from "../core/data.js";
import { go, href } from "../core/route.js";
import { count, rate } from "../core/format.js";
import { Button } from "./button.js";
import { Empty } from "./empty.js";
import { Notice } from "./notice.js";
import { Tabs } from "./tabs.js";
import { partsOf } from "./topology_names.js";
import { useView } from "./topology_view.js";
import { TopologyList } from "./topology_list.js";
import { TopologyDetail } from "./topology_detail.js";
import { arranged } from "./topology_cluster.js";
import { BOX, labelPlace, pathOf } from "./topology_layout.js";
import {
  FOLD_FROM, edgeText, folded, graphOf, keysText, structureOf, withEnds,
} from "./topology_model.js";

const EVERY_MS = 5000;
const LABELS_MAX = 120;
const NAME_CHARACTERS = 25;

/**
 * @param {{vhost: string, exchange?: string, queue?: string, hops?: number, name?: string}} props
 *   with an exchange or a queue, what is within `hops` edges of it.
 */
export function TopologyGraph({ vhost, exchange: given, queue, hops = 2, name }) {
  const exchange = given === "amq.default" ? "" : given;
  const around =
    exchange !== undefined ? `exchange:${exchange || "amq.default"}`
      : queue !== undefined ? `queue:${queue}` : undefined;
  const query = around ? { around, hops } : name ? { name } : {};
  const { data, error } = useData(["topology", vhost], query, { every: EVERY_MS });
  const [open, setOpen] = useState(() => new Set());
  const [foldsAll, setFolds] = useState(true);
  const [shows, setShows] = useState("graph");
  const [find, setFind] = useState("");
  const [picked, setPicked] = useState(null);
  const whole = useMemo(() => data && graphOf(data), [data]);
  const graph = useMemo(
    () => whole && withEnds(foldsAll ? folded(whole, open) : whole), [whole, foldsAll, open],
  );
  const structure = graph ? structureOf(graph) : "";
  const layout = useMemo(
    () => graph && arranged(graph), [graph],
  );
  if (error && !data) return html`<${Notice} kind="bad">${error.message}<//>`;
  if (!graph || !layout) return html`<p class="soft">Loading the topology…</p>`;
  if (!graph.nodes.size) {
    return html`<${Empty} title="Nothing to draw yet">
      Declare a <a href=${href(["queues"])}>queue</a> and an
      ${" "}<a href=${href(["exchanges"])}>exchange</a>, and bind the queue to it.
    <//>`;
  }
  const focus = exchange !== undefined ? `e:${exchange}` : queue !== undefined ? `q:${queue}` : "";
  const unfold = (node) => {
    setOpen(new Set([...open, node.id]));
    setPicked(node.members[0]);
  };
  const left = data.left_out.nodes + data.left_out.bindings;
  const grouped = open.size > 0 || [...graph.nodes.values()].some((one) => one.kind === "group");
  return html`
    <section class=${focus ? "topology is-part" : "topology"}>
      <div class="topology-bar">
        <${Tabs} tabs=${[{ id: "graph", title: "Graph" }, { id: "list", title: "List" }]}
          current=${shows} onPick=${setShows} />
        <${Find} value=${find} onInput=${setFind} graph=${whole} />
        ${(grouped || whole.nodes.size > FOLD_FROM) && html`<label class="check-inline">
          <input type="checkbox" checked=${foldsAll}
            onChange=${(event) => { setFolds(event.target.checked); setOpen(new Set()); }} />
          Fold like names
        </label>`}
      </div>
      ${left > 0 && html`<${Notice} kind="info">
        ${count(data.left_out.nodes)} more objects and ${count(data.left_out.bindings)} more
        bindings are not drawn. Search by name to see others.
      <//>`}
      ${shows === "graph"
        ? html`<${Drawing} ...${{ graph, layout, structure, find, focus, picked, setPicked }}
            open=${(node) => openNode(vhost, node, unfold)} />`
        : html`<${TopologyList} vhost=${vhost} graph=${whole} find=${find} />`}
      ${shows === "graph" && picked && graph.nodes.has(picked) && html`<${TopologyDetail}
        vhost=${vhost} graph=${graph} node=${graph.nodes.get(picked)} unfold=${unfold}
        close=${() => setPicked(null)} />`}
    </section>`;
}

function Find({ value, onInput, graph }) {
  const hits = value ? hitsOf(graph, value).size : 0;
  return html`
    <label class="topology-find">
      <span class="only-read">Find an exchange or queue in the graph</span>
      <input type="search" placeholder="Find in the graph" value=${value}
        onInput=${(event) => onInput(event.target.value)} />
      <span role="status" class="soft">${value ? `${count(hits)} found` : ""}</span>
    </label>`;
}

/** Ids of nodes whose names contain a text; of a group, if one of its members does. */
function hitsOf(graph, text) {
  const wanted = text.toLowerCase();
  const found = new Set();
  for (const node of graph.nodes.values()) {
    const names = node.names ?? [node.title];
    if (names.some((name) => name.toLowerCase().includes(wanted))) found.add(node.id);
  }
  return found;
}

function openNode(vhost, node, unfold) {
  if (node.kind === "group") unfold(node);
  else if (!node.missing) go(partsOf(vhost, node));
}


function Drawing({ graph, layout, structure, find, focus, picked, setPicked, open }) {
  const frame = useRef(null);
  const picture = useRef(null);
  const scene = useRef(null);
  const view = useView({ frame, picture, scene }, layout, structure, layout.places.get(focus));
  const [current, setCurrent] = useState(focus || null);
  const hits = useMemo(() => (find ? hitsOf(graph, find) : null), [find, graph]);
  const at = current && graph.nodes.has(current) ? current : graph.nodes.keys().next().value;
  useEffect(() => {
    // What was unfolded is in sight, and keys go on from there.
    if (graph.nodes.has(picked) && picked !== current) {
      setCurrent(picked);
      view.show(layout.places.get(picked));
    }
  }, [structure]);
  useEffect(() => {
    if (hits?.size) view.show(layout.places.get(hits.values().next().value));
  }, [find, structure]);
  const walk = (event, node) => {
    const next = NEXT[event.key]?.(graph, layout, node.id);
    if (next) {
      setCurrent(next);
      setPicked(next);
      view.show(layout.places.get(next));
      frame.current.querySelector(`[data-at="${[...graph.nodes.keys()].indexOf(next)}"]`)?.focus();
    } else if (event.key === "Enter") open(node);
    else if (event.key === " ") setPicked(node.id);
    else if (event.key === "Escape") setPicked(null);
    else if (event.key === "+" || event.key === "=") view.zoom(1.25);
    else if (event.key === "-") view.zoom(0.8);
    else if (event.key === "0") view.fit();
    else if (!NEXT[event.key]) return;
    event.preventDefault();
  };
  const near = graph.nodes.has(picked) ? nearOf(graph, picked) : null;
  const dim = (id) => (hits ? !hits.has(id) : near ? !near.nodes.has(id) : false);
  const labelled = layout.edges.length <= LABELS_MAX;
  const nodes = [...graph.nodes.values()];
  return html`
    <div class="topology-frame">
      <div class="topology-scene">
      <div ref=${frame} class="topology-view">
      <svg ref=${picture} role="group" class="topology-svg"
        aria-label="Topology graph. Arrow keys follow edges, Enter opens, plus and minus zoom.">
        <defs>
          ${["binding", "dead", "alternate"].map((kind) => html`
            <marker id=${`arrow-${kind}`} viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8"
              markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">
              <path d="M0,0.5 L8,4 L0,7.5 z" class=${`arrow-${kind}`} />
            </marker>`)}
        </defs>
        <g ref=${scene}>
          <g class="edges" aria-hidden="true">
            ${layout.blocks.map(({ id, place }) => html`<rect key=${id} class="block" x=${place.x}
              y=${place.y} width=${place.width} height=${place.height} rx="8" />`)}
            ${layout.edges.map((edge) => html`<${Edge} key=${edge.key} edge=${edge}
              graph=${graph} layout=${layout}
              dim=${near ? !isNear(near, edge) : hits !== null} />`)}
            ${layout.edges.filter((edge) => labelled || isNear(near, edge)).map((edge) => html`
              <${EdgeText} key=${edge.key} edge=${edge} graph=${graph} layout=${layout}
                dim=${near ? !isNear(near, edge) : hits !== null} />`)}
          </g>
          ${nodes.map((node, index) => html`<${Box} key=${node.id} node=${node} index=${index}
            place=${layout.places.get(node.id)} tab=${node.id === at} dim=${dim(node.id)}
            own=${node.id === focus} picked=${node.id === picked} label=${spoken(graph, node)}
            onKey=${(event) => walk(event, node)} onOpen=${() => open(node)}
            onPick=${() => { setCurrent(node.id); setPicked(node.id); }} />`)}
        </g>
      </svg>
      </div>
      <div class="topology-zoom" role="group" aria-label="Zoom">
        <${Button} onClick=${() => view.zoom(1.25)} label="Zoom in">+<//>
        <${Button} onClick=${() => view.zoom(0.8)} label="Zoom out">−<//>
        <${Button} onClick=${() => view.fit()}>Fit<//>
      </div>
      </div>
      <${Legend} />
    </div>`;
}

function Edge({ edge, graph, layout, dim }) {
  const from = layout.places.get(edge.from);
  const to = layout.places.get(edge.to);
  if (!from || !to) return null;
  const [source, target] = [edge.ends.from, edge.ends.to].map((id) => graph.nodes.get(id));
  const flow = edge.rate ?? Math.min(source.rateOut || 0, target.rateIn || 0);
  return html`
    <g class=${classOf(edge, dim)}>
      <path d=${pathOf(from, to)} marker-end=${`url(#arrow-${edge.kind})`}
        stroke-width=${1.25 + Math.min(5, 1.4 * Math.log10(1 + flow))}>
        <title>${edge.of.length > 1 ? `${count(edge.of.length)} edges such as ` : ""}${source.title}
          ${" → "}${edgeText(edge.ends, graph.nodes)}</title>
      </path>
    </g>`;
}

function classOf(edge, dim) {
  const filtered = edge.bindings.some((one) => one.filter);
  return `edge edge-${edge.kind}${filtered ? " edge-filter" : ""}${dim ? " is-dim" : ""}`;
}

/** What stands at an edge; drawn after all edges, so that none goes through it. */
function EdgeText({ edge, graph, layout, dim }) {
  const [from, to] = [edge.from, edge.to].map((id) => layout.places.get(id));
  if (!from || !to) return null;
  const label = cut(keysText(edge, 1).trim() || (edge.kind === "alternate" ? "alternate" : ""), 22);
  const place = labelPlace(from, to, graph.ends.get(edge.of[0]));
  return html`
    <g class=${classOf(edge, dim)}>
      ${label && html`<text x=${place.x} y=${place.y} text-anchor=${
        place.anchor}>${label}</text>`}
      ${edge.rate > 0 && html`<text class="edge-rate" x=${place.x} y=${place.y + 17}
        text-anchor=${place.anchor}>${rate(edge.rate)}</text>`}
    </g>`;
}

function Box({ node, index, place, tab, dim, own, picked, label, onKey, onOpen, onPick }) {
  if (!place) return null;
  const state = [
    "node", `node-${node.kind}`, node.kind === "group" && `node-of-${node.of}`,
    node.missing && "is-missing", node.state === "paused" && "is-paused", dim && "is-dim",
    own && "is-own", picked && "is-picked", node.type === "stream" && "node-stream",
    node.consumers === 0 && node.messages > 0 && node.type !== "stream" && "is-waiting",
  ].filter(Boolean).join(" ");
  return html`
    <g class=${state} transform=${`translate(${place.x},${place.y})`} role="link" data-at=${index}
      tabindex=${tab ? 0 : -1} aria-label=${label} onKeyDown=${onKey} onFocus=${onPick}
      onDblClick=${onOpen} onClick=${onPick}>
      <title>${node.title}</title>
      ${node.kind === "group" && html`<rect class="node-behind" x="5" y="-5" width=${BOX.width}
        height=${BOX.height} rx="6" />`}
      <rect width=${BOX.width} height=${BOX.height}
        rx=${node.kind === "exchange" || node.of === "exchange" ? BOX.height / 2 : 5} />
      <text class="node-name" x="14" y="15">${cut(node.title, NAME_CHARACTERS)}</text>
      <text class="node-facts" x="14" y="29">${factsOf(node)}</text>
    </g>`;
}

function factsOf(node) {
  if (node.missing) return "missing";
  const flow = node.rateIn > 0 ? `${rate(node.rateIn)} in` : "";
  if (node.kind === "exchange") return [node.type, flow].filter(Boolean).join(" · ");
  if (node.kind === "group" && node.of === "exchange") {
    return [`${count(node.count)} exchanges`, flow].filter(Boolean).join(" · ");
  }
  const many = node.kind === "group" ? `${count(node.count)} × ` : "";
  const paused = node.state === "paused" ? "paused" : "";
  return [`${many}${count(node.messages)} msg`, paused || flow].filter(Boolean).join(" · ");
}

/** A node for a screen reader: what it is, its figures, and where its edges lead. */
function spoken(graph, node) {
  const kind = node.kind === "group" ? `${node.count} folded ${node.of}s` : node.kind;
  const out = graph.edges.filter((edge) => edge.from === node.id).slice(0, 5);
  const leads = out.map((edge) => edgeText(edge, graph.nodes)).join("; ");
  return `${kind} ${node.title}, ${factsOf(node)}${leads ? `. Leads to ${leads}` : ""}`;
}

function isNear(near, edge) {
  return near !== null && edge.of.some((key) => near.edges.has(key));
}

function nearOf(graph, id) {
  const edges = graph.edges.filter((edge) => edge.from === id || edge.to === id);
  return {
    edges: new Set(edges.map((edge) => edge.key)),
    nodes: new Set([id, ...edges.flatMap((edge) => [edge.from, edge.to])]),
  };
}

/** The next node in a direction: along an edge, or above and below in the same column. */
const NEXT = {
  ArrowRight: (graph, layout, id) =>
    along(graph, layout, id, "from", "to") ?? across(layout, id, 1),
  ArrowLeft: (graph, layout, id) =>
    across(layout, id, -1) ?? along(graph, layout, id, "to", "from"),
  ArrowDown: (graph, layout, id) => beside(layout, id, 1),
  ArrowUp: (graph, layout, id) => beside(layout, id, -1),
  Home: (graph) => graph.nodes.keys().next().value,
  End: (graph) => [...graph.nodes.keys()].at(-1),
};

function along(graph, layout, id, here, there) {
  const { y } = layout.places.get(id);
  const ends = graph.edges.filter((edge) => edge[here] === id && edge[there] !== id)
    .map((edge) => edge[there]);
  ends.sort((a, b) => Math.abs(layout.places.get(a).y - y) - Math.abs(layout.places.get(b).y - y));
  return ends[0];
}

/** The next one of the same row in a block. */
function across(layout, id, step) {
  const own = layout.places.get(id);
  for (const [other, place] of layout.places) {
    const ahead = (place.x - own.x) * step;
    if (place.y === own.y && ahead > 0 && ahead < 1.2 * BOX.width) return other;
  }
  return undefined;
}

function beside(layout, id, step) {
  const own = layout.places.get(id);
  let best;
  for (const [other, place] of layout.places) {
    const ahead = (place.y - own.y) * step;
    if (other === id || place.x !== own.x || ahead <= 0) continue;
    if (best === undefined || ahead < (layout.places.get(best).y - own.y) * step) best = other;
  }
  return best;
}

function cut(text, most) {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) * 0.6);
  return `${text.slice(0, head)}…${text.slice(head + 1 - most)}`;
}

function Legend() {
  return html`
    <ul class="topology-legend" aria-label="Legend">
      <li><span class="key key-exchange"></span>exchange</li>
      <li><span class="key key-queue"></span>queue</li>
      <li><span class="key key-stream"></span>stream</li>
      <li><span class="key key-waiting"></span>messages, no consumer</li>
      <li><span class="line line-dead"></span>dead letters</li>
      <li><span class="line line-alternate"></span>alternate</li>
      <li>▽ filter</li>
      <li>wider: faster</li>
    </ul>`;
}
