/* Charts of the samples of one object.

   Must not know which object it is. */

import { html } from "../core/html.js";
import { useSeries } from "../core/live.js";
import { useRange } from "../core/range.js";
import { Chart } from "./chart.js";
import { Notice } from "./notice.js";

/**
 * @param {object} props
 * @param {{kind: string, vhost?: string, name?: string}} props.of as for useSeries.
 * @param {{title: string, height?: number, unit: string, lines: string[][]}[]} props.charts
 *   `lines`: the name of a series, and its label.
 */
export function HistoryCharts({ of, charts }) {
  const [range, pick] = useRange();
  const { times, series, error } = useSeries(of, range);
  const refusal = error && !times.length && error.status !== 404 ? error : null;
  if (refusal) {
    return html`<${Notice} kind="warn">${refusal.message}<//>`;
  }
  const drawn = charts.map(
    ({ title, height, unit, lines }) =>
      html`<${Chart} key=${title} title=${title} height=${height} times=${times} range=${range}
        onRange=${pick}
        series=${lines.map(([name, label]) => ({
          name, label, unit, values: series[name] ?? times.map(() => null),
        }))} />`,
  );
  return drawn.length > 1 ? html`<div class="columns">${drawn}</div>` : drawn;
}
