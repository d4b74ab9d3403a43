/* How far readers of streams were behind, as far as this tab has looked: the broker keeps the
   present only. Must not know what draws it. Invariant: bounded by objects and by samples. */

const SAMPLES_MAX = 900;
const OBJECTS_MAX = 20;
const READERS_MAX = 8;

const kept = new Map();

/**
 * Note how far readers are behind now.
 * @param {string} key of the stream.
 * @param {{reader: string, lag: number}[]} readers
 */
export function noteLag(key, readers, at_ms = Date.now()) {
  const samples = kept.get(key) ?? [];
  kept.delete(key);
  kept.set(key, samples);
  if (kept.size > OBJECTS_MAX) {
    kept.delete(kept.keys().next().value);
  }
  if (samples.length && at_ms - samples.at(-1).at_ms < 900) {
    return;
  }
  samples.push({ at_ms, lag: new Map(readers.map((one) => [one.reader, one.lag])) });
  if (samples.length > SAMPLES_MAX) {
    samples.splice(0, samples.length - SAMPLES_MAX);
  }
}

/** The samples of a stream as columns for a chart: those readers that are furthest behind. */
export function lagSeries(key, span_ms) {
  const all = kept.get(key) ?? [];
  const from = Date.now() - span_ms;
  const samples = all.filter((one) => one.at_ms >= from);
  const last = samples.at(-1)?.lag ?? new Map();
  const names = [...last].sort((a, b) => b[1] - a[1]).slice(0, READERS_MAX).map(([name]) => name);
  return {
    times: samples.map((one) => one.at_ms / 1000),
    series: names.sort().map((name) => ({
      name, label: name, unit: "count", values: samples.map((one) => one.lag.get(name) ?? null),
    })),
  };
}
