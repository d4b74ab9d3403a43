/* How many messages died by reason, as far as this tab has looked: the broker counts totals only.
   Invariant: bounded by virtual hosts and by samples. */

const SAMPLES_MAX = 1800;
const VHOSTS_MAX = 10;
const RATE_MS = 10_000;
const REASONS = [
  ["rejected", "Rejected"], ["expired", "Expired"], ["maxlen", "Over a limit of length"],
  ["delivery_limit", "Over the limit of deliveries"],
];

const kept = new Map();

const keyOf = (row) => JSON.stringify([row.queue, row.reason, row.exchange, row.routing_key]);

/** Note the totals of a virtual host as of now: rows of /api/dead-letters. */
export function noteDeaths(vhost, rows, at_ms = Date.now()) {
  const samples = kept.get(vhost) ?? [];
  kept.delete(vhost);
  kept.set(vhost, samples);
  if (kept.size > VHOSTS_MAX) {
    kept.delete(kept.keys().next().value);
  }
  const byReason = new Map();
  for (const row of rows) {
    byReason.set(row.reason, (byReason.get(row.reason) ?? 0) + row.messages);
  }
  samples.push({ at_ms, byReason, rows: new Map(rows.map((row) => [keyOf(row), row.messages])) });
  if (samples.length > SAMPLES_MAX) {
    samples.splice(0, samples.length - SAMPLES_MAX);
  }
  // Rows are for the rates of the last seconds only.
  const old = samples.findLastIndex((one) => at_ms - one.at_ms > 2 * RATE_MS);
  if (old >= 0) {
    samples[old].rows = new Map();
  }
}

/** Rates by reason as columns for a chart, and those of each row of the last seconds. */
export function deathSeries(vhost, span_ms) {
  const all = kept.get(vhost) ?? [];
  const from = Date.now() - span_ms;
  const samples = all.filter((one) => one.at_ms >= from);
  const series = REASONS.map(([name, label]) => ({
    name, label, unit: "rate", values: samples.map((one, at) => {
      const before = samples[at - 1];
      if (!before) {
        return null;
      }
      const died = (one.byReason.get(name) ?? 0) - (before.byReason.get(name) ?? 0);
      return Math.max(0, died) / ((one.at_ms - before.at_ms) / 1000);
    }),
  }));
  return { times: samples.map((one) => one.at_ms / 1000), series, rates: ratesOf(all) };
}

function ratesOf(samples) {
  const last = samples.at(-1);
  const first = samples.find((one) => last.at_ms - one.at_ms <= RATE_MS);
  const found = new Map();
  if (!last || first === last) {
    return found;
  }
  const seconds = (last.at_ms - first.at_ms) / 1000;
  for (const [key, total] of last.rows) {
    found.set(key, Math.max(0, total - (first.rows.get(key) ?? 0)) / seconds);
  }
  return found;
}
