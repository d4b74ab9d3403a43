/* Places of the topology graph: layers from left to right, few crossings, nodes near their ends.
   Pure arithmetic over ids; must not know the DOM, nor what a node stands for. */

/** Sizes in the graph's own units, which are pixels at a zoom of 1. */
export const BOX = { width: 188, height: 36, gapX: 132, gapY: 12 };
const SWEEPS = 6;
const SHELF_WIDTH = 1500;
const COMPONENT_GAP = 44;

/**
 * @param {string[]} ids of the nodes, in the order that decides where nothing else does.
 * @param {{from: string, to: string}[]} edges between them.
 * @param {Map<string, {width: number, height: number}>} [sizes] of nodes that are no plain box.
 * @returns {{places: Map<string, {x: number, y: number, width: number, height: number,
 *   layer: number}>, width: number, height: number}}
 */
export function layoutOf(ids, edges, sizes = new Map()) {
  const sizeOf = (id) => sizes.get(id) ?? BOX;
  const parts = componentsOf(ids, edges).map((part) => placed(part, sizeOf));
  const connected = parts.filter((part) => part.ids.length > 1);
  const alone = parts.filter((part) => part.ids.length === 1).map((part) => part.ids[0]);
  connected.sort((a, b) => b.ids.length - a.ids.length);
  const places = new Map();
  let x = 0;
  let y = 0;
  let shelf = 0;
  let width = 0;
  const most = Math.max(SHELF_WIDTH, ...connected.map((part) => part.width));
  for (const part of connected) {
    if (x > 0 && x + part.width > most) {
      y += shelf + COMPONENT_GAP;
      x = 0;
      shelf = 0;
    }
    for (const [id, place] of part.places) {
      places.set(id, { ...place, x: place.x + x, y: place.y + y });
    }
    width = Math.max(width, x + part.width);
    x += part.width + BOX.gapX / 2;
    shelf = Math.max(shelf, part.height);
  }
  let height = connected.length ? y + shelf : 0;
  if (alone.length) {
    const top = connected.length ? height + COMPONENT_GAP : 0;
    const across = Math.max(2, Math.floor(Math.max(width, 900) / (BOX.width + 16)));
    alone.forEach((id, at) => {
      const column = at % across;
      const row = Math.floor(at / across);
      const place = { x: column * (BOX.width + 16), y: top + row * (BOX.height + BOX.gapY) };
      places.set(id, { ...place, width: BOX.width, height: BOX.height, layer: column });
      width = Math.max(width, place.x + BOX.width);
      height = place.y + BOX.height;
    });
  }
  return { places, width, height };
}

function componentsOf(ids, edges) {
  const near = new Map(ids.map((id) => [id, []]));
  for (const { from, to } of edges) {
    near.get(from).push(to);
    near.get(to).push(from);
  }
  const seen = new Set();
  const found = [];
  for (const id of ids) {
    if (seen.has(id)) continue;
    const members = new Set([id]);
    const open = [id];
    seen.add(id);
    while (open.length) {
      for (const other of near.get(open.pop())) {
        if (seen.has(other)) continue;
        seen.add(other);
        members.add(other);
        open.push(other);
      }
    }
    const inside = ids.filter((one) => members.has(one));
    found.push({ ids: inside, edges: edges.filter((edge) => members.has(edge.from)) });
  }
  return found;
}

function placed({ ids, edges }, sizeOf) {
  const forward = withoutCycles(ids, edges);
  const layerOf = layersOf(ids, forward);
  const layers = [];
  for (const id of ids) (layers[layerOf.get(id)] ??= []).push(id);
  const near = new Map(ids.map((id) => [id, { before: [], after: [] }]));
  for (const { from, to } of forward) {
    near.get(to).before.push(from);
    near.get(from).after.push(to);
  }
  order(layers, near);
  const y = rows(layers, near, sizeOf);
  const places = new Map();
  let x = 0;
  let height = 0;
  for (const [layer, members] of layers.entries()) {
    for (const id of members) {
      const size = sizeOf(id);
      places.set(id, { x, y: y.get(id), width: size.width, height: size.height, layer });
      height = Math.max(height, y.get(id) + size.height);
    }
    x += Math.max(...members.map((id) => sizeOf(id).width)) + BOX.gapX;
  }
  return { ids, places, width: x - BOX.gapX, height };
}

/** Edges with those turned round that lead back to a node on the way to it. */
function withoutCycles(ids, edges) {
  const out = new Map(ids.map((id) => [id, []]));
  const incoming = new Map(ids.map((id) => [id, 0]));
  for (const edge of edges) {
    if (edge.from === edge.to) continue;
    out.get(edge.from).push(edge.to);
    incoming.set(edge.to, incoming.get(edge.to) + 1);
  }
  const state = new Map();
  const found = [];
  const starts = [...ids].sort((a, b) => incoming.get(a) - incoming.get(b));
  for (const start of starts) {
    if (state.has(start)) continue;
    const stack = [[start, 0]];
    state.set(start, 1);
    while (stack.length) {
      const top = stack[stack.length - 1];
      const to = out.get(top[0])[top[1]++];
      if (to === undefined) {
        state.set(top[0], 2);
        stack.pop();
      } else if (state.get(to) === 1) found.push({ from: to, to: top[0] });
      else {
        found.push({ from: top[0], to });
        if (!state.has(to)) {
          state.set(to, 1);
          stack.push([to, 0]);
        }
      }
    }
  }
  return found;
}

/** The layer of each node: one more than the highest of those before it. */
function layersOf(ids, edges) {
  const waits = new Map(ids.map((id) => [id, 0]));
  const out = new Map(ids.map((id) => [id, []]));
  for (const { from, to } of edges) {
    out.get(from).push(to);
    waits.set(to, waits.get(to) + 1);
  }
  const layer = new Map(ids.map((id) => [id, 0]));
  const starts = ids.filter((id) => waits.get(id) === 0);
  const open = [...starts];
  while (open.length) {
    const id = open.pop();
    for (const to of out.get(id)) {
      layer.set(to, Math.max(layer.get(to), layer.get(id) + 1));
      waits.set(to, waits.get(to) - 1);
      if (waits.get(to) === 0) open.push(to);
    }
  }
  for (const id of starts) {
    const after = out.get(id).map((to) => layer.get(to));
    if (after.length) layer.set(id, Math.min(...after) - 1);
  }
  return layer;
}

/** Sort each layer by the mean place of its neighbours, from left to right and back. */
function order(layers, near) {
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const place = new Map();
    for (const members of layers) members.forEach((id, at) => place.set(id, at / members.length));
    const leftToRight = sweep % 2 === 0;
    const turn = leftToRight ? layers : [...layers].reverse();
    for (const members of turn) {
      const mean = new Map();
      for (const id of members) {
        const { before, after } = near.get(id);
        const side = leftToRight ? before : after;
        const ends = side.length ? side : [...before, ...after];
        const total = ends.reduce((sum, end) => sum + place.get(end), 0);
        mean.set(id, ends.length ? total / ends.length : place.get(id));
      }
      members.sort((a, b) => mean.get(a) - mean.get(b));
      members.forEach((id, at) => place.set(id, at / members.length));
    }
  }
}

/** The y of each node: its middle near the mean of its neighbours' middles, none over another. */
function rows(layers, near, sizeOf) {
  const y = new Map();
  const middle = (id) => y.get(id) + sizeOf(id).height / 2;
  for (const members of layers) {
    const tops = apart(members.map(() => 0), members.map((id) => sizeOf(id).height));
    members.forEach((id, at) => y.set(id, tops[at]));
  }
  for (let pass = 0; pass < 4; pass += 1) {
    const turn = pass % 2 === 0 ? layers : [...layers].reverse();
    for (const members of turn) {
      const wanted = members.map((id) => {
        const { before, after } = near.get(id);
        const ends = pass % 2 === 0 ? before : after;
        const some = ends.length ? ends : [...before, ...after];
        if (!some.length) return y.get(id);
        const mean = some.reduce((sum, end) => sum + middle(end), 0) / some.length;
        return mean - sizeOf(id).height / 2;
      });
      const tops = apart(wanted, members.map((id) => sizeOf(id).height));
      members.forEach((id, at) => y.set(id, tops[at]));
    }
  }
  const least = Math.min(...y.values());
  for (const [id, value] of y) y.set(id, Math.round(value - least));
  return y;
}

/** The values nearest to those wanted that keep order and distance (isotonic regression). */
function apart(wanted, heights) {
  const offsets = [];
  let sum = 0;
  for (const height of heights) {
    offsets.push(sum);
    sum += height + BOX.gapY;
  }
  const blocks = [];
  wanted.forEach((value, at) => {
    blocks.push({ mean: value - offsets[at], count: 1 });
    while (blocks.length > 1 && blocks.at(-2).mean > blocks.at(-1).mean) {
      const last = blocks.pop();
      const block = blocks.at(-1);
      const count = block.count + last.count;
      block.mean = (block.mean * block.count + last.mean * last.count) / count;
      block.count = count;
    }
  });
  const found = [];
  for (const block of blocks) {
    for (let at = 0; at < block.count; at += 1) found.push(block.mean + offsets[found.length]);
  }
  return found;
}

/** The path of an edge between two boxes; one that leads back goes below both. */
export function pathOf(from, to) {
  const y1 = from.y + from.height / 2;
  const y2 = to.y + to.height / 2;
  if (from === to) {
    const x = from.x + from.width;
    return `M${x - 20},${from.y + from.height} c0,26 44,26 44,-${from.height / 2} h-24`;
  }
  if (to.x > from.x) {
    const x1 = from.x + from.width;
    const bend = Math.max(40, Math.min(120, (to.x - x1) / 2));
    return `M${x1},${y1} C${x1 + bend},${y1} ${to.x - bend},${y2} ${to.x},${y2}`;
  }
  const x1 = from.x + from.width / 2;
  const x2 = to.x + to.width / 2;
  const below = Math.max(from.y + from.height, to.y + to.height);
  const deep = below + 30 + Math.min(60, Math.abs(x1 - x2) / 12);
  return `M${x1},${from.y + from.height} C${x1},${deep} ${x2},${deep} ${x2},${to.y + to.height}`;
}

/** Where the label of an edge stands: beside an end that no other edge has, or in the middle. */
export function labelPlace(from, to, end = "middle") {
  if (to.x <= from.x) {
    return {
      x: (from.x + to.x + to.width) / 2,
      y: Math.max(from.y + from.height, to.y + to.height) + 24,
      anchor: "middle",
    };
  }
  if (end === "to") {
    return { x: to.x - 12, y: to.y + to.height / 2 - 5, anchor: "end" };
  }
  if (end === "from") {
    return { x: from.x + from.width + 6, y: from.y + from.height / 2 - 5, anchor: "start" };
  }
  return { x: (from.x + from.width + to.x) / 2,
    y: (from.y + from.height / 2 + to.y + to.height / 2) / 2 - 4,
    anchor: "middle" };
}
