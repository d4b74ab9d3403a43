/* How far the readers of one partition of a stream were behind, as the broker samples it. */

import { html } from "../core/html.js";
import { useSeries } from "../core/live.js";
import { useRange } from "../core/range.js";
import { Chart } from "./chart.js";

const LAG = "lag:";
const READERS_MAX = 8;

/** @param {{vhost: string, queue: string, title: string}} props `queue`: of the partition. */
export function LagChart({ vhost, queue, title }) {
  const [range, pick] = useRange();
  const { times, series } = useSeries({ kind: "stream", vhost, name: queue }, range);
  const last = (values) => values.findLast((value) => value !== null) ?? 0;
  const readers = Object.keys(series).filter((name) => name.startsWith(LAG));
  readers.sort((a, b) => last(series[b]) - last(series[a]));
  const lines = readers.slice(0, READERS_MAX).sort().map((name) => ({
    name, label: name.slice(LAG.length), unit: "count", values: series[name],
  }));
  // The minute knows who reads now; a longer range has its buttons in any case.
  if (!lines.length && range === "minute") {
    return null;
  }
  return html`<${Chart} title=${title} times=${times} series=${lines} range=${range}
      onRange=${pick} />
    ${readers.length > READERS_MAX && html`<p class="soft">Those ${READERS_MAX} that are furthest
      behind, of ${readers.length}.</p>`}`;
}
