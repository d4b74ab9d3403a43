/* Nodes with the same neighbours, drawn as one block with one edge: a fan of hundreds of edges says
   no more. Pure arithmetic over the graph of topology_model; must not know the DOM. */

import { BOX, layoutOf } from "./topology_layout.js";

const LEAST = 10;
const PAD = 10;
const GAP_X = 8;
const GAP_Y = 6;
const SHAPE = 1.4; // width by height of a block, about

/**
 * The layout of a graph, its blocks, and the edges as they are drawn.
 * @returns {{places: Map, width: number, height: number, blocks: {id: string, place: object}[],
 *   edges: object[]}} an edge has `of`: the keys of those that it stands for.
 */
export function arranged(graph) {
  const { blockOf, blocks } = blocksOf(graph);
  const sizes = new Map();
  for (const [id, members] of blocks) {
    sizes.set(id, sizeOf(members.length));
  }
  const edges = joined(graph.edges, blockOf);
  const ids = [];
  const seen = new Set();
  for (const id of graph.nodes.keys()) {
    const drawn = blockOf.get(id) ?? id;
    if (!seen.has(drawn)) {
      seen.add(drawn);
      ids.push(drawn);
    }
  }
  const layout = layoutOf(ids, edges, sizes);
  const places = new Map(layout.places);
  for (const [id, members] of blocks) {
    const { x, y, layer } = layout.places.get(id);
    const { columns } = sizes.get(id);
    members.forEach((member, at) => places.set(member, {
      x: x + PAD + (at % columns) * (BOX.width + GAP_X),
      y: y + PAD + Math.floor(at / columns) * (BOX.height + GAP_Y),
      width: BOX.width, height: BOX.height, layer,
    }));
  }
  return {
    ...layout, places, edges,
    blocks: [...blocks.keys()].map((id) => ({ id, place: layout.places.get(id) })),
  };
}

/** Nodes by their neighbours, where many have the same. */
function blocksOf(graph) {
  const near = new Map([...graph.nodes.keys()].map((id) => [id, []]));
  for (const { from, to, kind } of graph.edges) {
    near.get(from).push(`>${kind} ${to}`);
    near.get(to).push(`<${kind} ${from}`);
  }
  const buckets = new Map();
  for (const [id, ends] of near) {
    const key = `${graph.nodes.get(id).kind}\n${ends.sort().join("\n")}`;
    if (ends.length) {
      buckets.set(key, [...(buckets.get(key) ?? []), id]);
    }
  }
  const blocks = new Map();
  const blockOf = new Map();
  for (const members of buckets.values()) {
    if (members.length >= LEAST) {
      const id = `block of ${members[0]}`;
      const name = (member) => graph.nodes.get(member).title;
      members.sort((a, b) => name(a).localeCompare(name(b), "en", { numeric: true }));
      blocks.set(id, members);
      members.forEach((member) => blockOf.set(member, id));
    }
  }
  return { blocks, blockOf };
}

function sizeOf(count) {
  const step = BOX.height + GAP_Y;
  const columns = Math.max(2, Math.round(Math.sqrt((count * step * SHAPE) / (BOX.width + GAP_X))));
  const rows = Math.ceil(count / columns);
  return {
    columns, width: columns * (BOX.width + GAP_X) - GAP_X + 2 * PAD,
    height: rows * step - GAP_Y + 2 * PAD,
  };
}

function joined(edges, blockOf) {
  const found = new Map();
  for (const edge of edges) {
    const from = blockOf.get(edge.from) ?? edge.from;
    const to = blockOf.get(edge.to) ?? edge.to;
    const key = JSON.stringify([edge.kind, from, to]);
    const known = found.get(key);
    if (known === undefined) {
      found.set(key, { ...edge, key, from, to, of: [edge.key], ends: edge });
    } else {
      known.of.push(edge.key);
      known.bindings = [...known.bindings, ...edge.bindings];
      known.rate = known.rate === null || edge.rate === null ? null : known.rate + edge.rate;
    }
  }
  return [...found.values()];
}
