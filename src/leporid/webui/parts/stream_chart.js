/* The rates of one partition of a stream, as the broker samples them. */

import { html } from "../core/html.js";
import { useSeries } from "../core/live.js";
import { useRange } from "../core/range.js";
import { Chart } from "./chart.js";
import { Notice } from "./notice.js";

const RATES = [
  ["publish", "Published"],
  ["deliver_get", "Delivered"],
  ["ack", "Acknowledged"],
];

/** @param {{vhost: string, info: object, partition: number}} props */
export function StreamChart({ vhost, info, partition }) {
  const [range, pick] = useRange();
  const name = info.partitions[partition].queue;
  const { times, series, error } = useSeries({ kind: "stream", vhost, name }, range);
  const lines = RATES.map(([key, label]) => ({
    name: key, label, unit: "rate", values: series[key] ?? times.map(() => null),
  }));
  return html`
    ${error && !times.length && html`<${Notice} kind="warn">${error.message}<//>`}
    <${Chart} title="Messages a second" times=${times} series=${lines} range=${range}
      onRange=${pick} />`;
}
