/* Where the page of a node of the topology is. */

/** The route of the page of a node. */
export function partsOf(vhost, node) {
  if (node.kind === "exchange") return ["exchanges", vhost, node.name || "amq.default"];
  return [node.type === "stream" ? "streams" : "queues", vhost, node.name];
}
