/* Charts of the samples of one object; the range that they show stands in the address.

   Must not know which object it is. Invariant: all of them show the same range. */

import { html } from "../core/html.js";
import { useSeries } from "../core/live.js";
import { setQuery } from "../core/route.js";
import { Chart } from "./chart.js";
import { Notice } from "./notice.js";

/**
 * @param {object} props
 * @param {{kind: string, vhost?: string, name?: string}} props.of as for useSeries.
 * @param {object} props.query of the address.
 * @param {{title: string, height?: number, unit: string, lines: string[][]}[]} props.charts
 *   `lines`: the name of a series, and its label.
 */
export function HistoryCharts({ of, query, charts }) {
  const range = ["hour", "day"].includes(query.range) ? query.range : "minute";
  const pick = (found) => setQuery({ range: found === "minute" ? null : found }, { replace: true });
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
