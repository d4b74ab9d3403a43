/* How many messages died a second, by reason: of the whole broker, or in one queue. */

import { html } from "../core/html.js";
import { useSeries } from "../core/live.js";
import { useRange } from "../core/range.js";
import { may, useUser } from "../core/session.js";
import { Chart } from "./chart.js";
import { REASONS } from "./death_rates.js";

/** @param {{vhost: string, queue?: string}} props without a queue, of the whole broker. */
export function DeathChart({ vhost, queue }) {
  const [range, pick] = useRange();
  const mayNot = !may(useUser(), "monitoring") && !queue;
  const of = queue ? { kind: "queue", vhost, name: queue } : { kind: "overview" };
  const { times, series, error } = useSeries(of, range);
  const lines = REASONS.map((name) => ({
    name, label: name, unit: "rate",
    values: series[`dead_letters:${name}`] ?? times.map(() => null),
  }));
  if (mayNot) {
    return html`<p class="soft">How many died in the whole broker over time is shown to users with
      the tag "monitoring". "Chart" shows the same of one queue.</p>`;
  }
  if (error && !times.length) {
    return html`<p class="soft">How many died over time cannot be shown: ${error.message}.</p>`;
  }
  const title = queue ? `Died in ${queue}, by reason` : "Died in the whole broker, by reason";
  return html`<${Chart} title=${title} times=${times} series=${lines} range=${range}
    onRange=${pick} />`;
}
