/* How many messages a second die now, by queue, reason and target: the broker counts totals, and
   this compares two answers. Invariant: it keeps the answers of the last seconds only. */

import { useRef } from "../core/html.js";

const SPAN_MS = 10_000;

/** Why a message may die, as the header x-death has it. */
export const REASONS = ["rejected", "expired", "maxlen", "delivery_limit"];

/** What tells a row of /api/dead-letters from others. */
export const keyOf = (row) =>
  JSON.stringify([row.queue, row.reason, row.exchange, row.routing_key]);

/**
 * @param {object[]|undefined} rows the newest answer; undefined before the first.
 * @returns {Map<string, number>} rates by `keyOf`.
 */
export function useDeathRates(rows) {
  const seen = useRef([]);
  const samples = seen.current;
  if (rows && samples.at(-1)?.rows !== rows) {
    const at_ms = Date.now();
    samples.push({ at_ms, rows, totals: new Map(rows.map((row) => [keyOf(row), row.messages])) });
    while (samples.length > 2 && at_ms - samples[1].at_ms >= SPAN_MS) {
      samples.shift();
    }
  }
  const found = new Map();
  const [first, last] = [samples[0], samples.at(-1)];
  if (first !== last) {
    const seconds = (last.at_ms - first.at_ms) / 1000;
    for (const [key, total] of last.totals) {
      found.set(key, Math.max(0, total - (first.totals.get(key) ?? 0)) / seconds);
    }
  }
  return found;
}
