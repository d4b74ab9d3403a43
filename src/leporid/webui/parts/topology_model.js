/* What the topology graph shows: nodes and edges out of the answer of /api/topology, and folding.
   Must not know how it is drawn, nor the DOM. */

/** Nodes beyond which groups of like names are folded, unless the reader unfolds them. */
export const FOLD_FROM = 40;
const GROUP_LEAST = 4;
const SEPARATOR = /[.\-_/:#| ]/;

/** The argument of a binding that is its filter, as one text; "" without one. */
function filterOf(args) {
  const found = [];
  if (args["x-filter-tags"] !== undefined) found.push(`tags: ${args["x-filter-tags"]}`);
  if (args["x-filter-sql"] !== undefined) found.push(String(args["x-filter-sql"]));
  if (args["x-filter-class"] !== undefined) found.push(`class ${args["x-filter-class"]}`);
  return found.join(" and ");
}

/**
 * Nodes and edges of an answer.
 * @returns {{nodes: Map<string, object>, edges: object[]}} an edge has `from`, `to`, `kind`
 *   ("binding", "dead" or "alternate"), `bindings` and `rate` (null where it is not known).
 */
export function graphOf(answer) {
  const nodes = new Map();
  for (const one of answer.exchanges) {
    const name = one.name === "amq.default" ? "" : one.name;
    nodes.set(`e:${name}`, {
      id: `e:${name}`, kind: "exchange", name, title: one.name, type: one.type,
      internal: one.internal, rateIn: one.rate_in, rateOut: one.rate_out,
      alternate: one.alternate_exchange,
    });
  }
  for (const one of answer.queues) {
    nodes.set(`q:${one.name}`, {
      id: `q:${one.name}`, kind: "queue", name: one.name, title: one.name, type: one.type,
      state: one.state, messages: one.messages, consumers: one.consumers,
      rateIn: one.rate_in, rateOut: one.rate_out,
      dead: one.dead_letter_exchange, deadKey: one.dead_letter_routing_key,
    });
  }
  const edges = new Map();
  const join = (from, to, kind) => {
    const key = JSON.stringify([kind, from, to]);
    if (!edges.has(key)) edges.set(key, { key, from, to, kind, bindings: [], rate: null });
    return edges.get(key);
  };
  for (const one of answer.bindings) {
    const to = `${one.destination_type === "queue" ? "q" : "e"}:${one.destination}`;
    if (!nodes.has(`e:${one.source}`) || !nodes.has(to)) continue;
    const binding = { key: one.routing_key, filter: filterOf(one.arguments), of: one };
    join(`e:${one.source}`, to, "binding").bindings.push(binding);
  }
  for (const name of answer.missing) {
    nodes.set(`e:${name}`, {
      id: `e:${name}`, kind: "exchange", name, title: name, type: "", missing: true, rateIn: 0,
      rateOut: 0,
    });
  }
  for (const node of [...nodes.values()]) {
    // What is further away than this answer reaches is not drawn.
    if (node.alternate != null && nodes.has(`e:${node.alternate}`)) {
      join(node.id, `e:${node.alternate}`, "alternate");
    }
    if (node.dead == null) continue;
    const key = node.deadKey;
    if (node.dead !== "") {
      if (!nodes.has(`e:${node.dead}`)) continue;
      const edge = join(node.id, `e:${node.dead}`, "dead");
      if (key != null) edge.bindings.push({ key, filter: "", of: null });
    } else if (key != null && nodes.has(`q:${key}`)) join(node.id, `q:${key}`, "dead");
  }
  const found = [...edges.values()];
  rateEdges(nodes, found);
  return { nodes, edges: found };
}

/** The broker counts by exchange and queue: a binding's rate is known where it is the only way. */
function rateEdges(nodes, edges) {
  const into = new Map();
  for (const edge of edges) into.set(edge.to, (into.get(edge.to) ?? 0) + 1);
  for (const edge of edges) {
    const to = nodes.get(edge.to);
    if (edge.kind === "binding" && to.kind === "queue" && into.get(edge.to) === 1) {
      edge.rate = to.rateIn;
    }
  }
}

/**
 * Fold nodes of like names with the same neighbours into groups.
 * @param {Set<string>} open ids of groups that stay unfolded.
 * @returns the same shape as `graphOf`, with nodes of kind "group" (`members`: ids).
 */
export function folded(graph, open) {
  if (graph.nodes.size <= FOLD_FROM) return graph;
  let found = foldBy(graph, open, neighbourhoods(graph));
  if (found.nodes.size > 3 * FOLD_FROM) {
    found = foldBy(found, open, (node) => `${node.kind} ${node.messages === undefined}`);
  }
  return found;
}

function neighbourhoods(graph) {
  const near = new Map([...graph.nodes.keys()].map((id) => [id, []]));
  for (const edge of graph.edges) {
    near.get(edge.from).push(`>${edge.kind}${edge.to}`);
    near.get(edge.to).push(`<${edge.kind}${edge.from}`);
  }
  return (node) => `${node.kind} ${near.get(node.id).sort().join("\n")}`;
}

function foldBy(graph, open, signature) {
  const buckets = new Map();
  for (const node of graph.nodes.values()) {
    if (node.kind === "group" || node.missing || node.unfolded) continue;
    const key = JSON.stringify([signature(node), stemOf(node.name)]);
    if (!buckets.has(key)) buckets.set(key, []);
    buckets.get(key).push(node);
  }
  const place = new Map();
  const nodes = new Map(graph.nodes);
  for (const [key, members] of buckets) {
    const id = `g:${key}`;
    if (open.has(id)) {
      // No later round folds them again.
      members.forEach((one) => nodes.set(one.id, { ...one, unfolded: true }));
      continue;
    }
    if (members.length < GROUP_LEAST) continue;
    for (const member of members) {
      place.set(member.id, id);
      nodes.delete(member.id);
    }
    nodes.set(id, groupOf(id, members));
  }
  const edges = new Map();
  for (const edge of graph.edges) {
    const from = place.get(edge.from) ?? edge.from;
    const to = place.get(edge.to) ?? edge.to;
    const key = JSON.stringify([edge.kind, from, to]);
    const known = edges.get(key);
    if (known === undefined) edges.set(key, { ...edge, key, from, to, count: edge.count ?? 1 });
    else {
      known.count += edge.count ?? 1;
      known.bindings = [...known.bindings, ...edge.bindings];
      known.rate = known.rate === null || edge.rate === null ? null : known.rate + edge.rate;
    }
  }
  return { nodes, edges: [...edges.values()] };
}

function groupOf(id, members) {
  const sum = (name) => members.reduce((total, one) => total + (one[name] ?? 0), 0);
  return {
    id, kind: "group", of: members[0].kind, name: `${commonStart(members)}*`,
    title: `${commonStart(members)}*`, members: members.map((one) => one.id),
    names: members.map((one) => one.name), count: members.length, type: members[0].type,
    messages: members[0].kind === "queue" ? sum("messages") : undefined,
    consumers: sum("consumers"), rateIn: sum("rateIn"), rateOut: sum("rateOut"),
  };
}

/** The first word of a name; of one without separators, what stands before its last digits. */
function stemOf(name) {
  const at = name.search(SEPARATOR);
  return at > 0 ? name.slice(0, at) : name.replace(/\d+$/, "");
}

function commonStart(members) {
  let start = members[0].name;
  for (const { name } of members) {
    while (!name.startsWith(start)) start = start.slice(0, -1);
  }
  return start;
}

/** The graph with `ends`: at which end of each edge its label has a place of its own. */
export function withEnds(graph) {
  const out = new Map();
  const into = new Map();
  for (const { from, to } of graph.edges) {
    out.set(from, (out.get(from) ?? 0) + 1);
    into.set(to, (into.get(to) ?? 0) + 1);
  }
  const ends = new Map(graph.edges.map(({ key, from, to }) =>
    [key, into.get(to) === 1 ? "to" : out.get(from) === 1 ? "from" : "middle"]));
  return { ...graph, ends };
}

/** What makes the layout: equal for two answers that differ in figures only. */
export function structureOf(graph) {
  return [...graph.nodes.keys()].join("\n") + "\u0000" + graph.edges.map((e) => e.key).join("\n");
}

/** An edge in words, from the side of one of its ends. */
export function edgeText(edge, nodes) {
  const to = nodes.get(edge.to).title;
  if (edge.kind === "dead") return `dead letters to ${to}`;
  if (edge.kind === "alternate") return `what is unroutable to ${to}`;
  return `${to}${keysText(edge)}`;
}

/** The keys and filters of an edge, as one short text; "" if it has none. */
export function keysText(edge, most = 2) {
  const texts = edge.bindings
    .map((one) => [one.key, one.filter && `▽ ${one.filter}`].filter(Boolean).join(" "))
    .filter(Boolean);
  if (!texts.length) return "";
  const more = texts.length > most ? ` +${texts.length - most}` : "";
  return ` ${texts.slice(0, most).join(", ")}${more}`;
}
