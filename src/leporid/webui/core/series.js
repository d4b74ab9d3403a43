/* Samples as columns: what a chart is given.

   Must not ask the broker, nor draw. */

/** What the range "minute" shows, in seconds. */
export const MINUTE_S = 60;

/** Flatten what a sample says of the broker or an object, to the names of the history. */
export function valuesOf(part) {
  if (!part) {
    return null;
  }
  const found = { ...part.totals, ...part.rates };
  for (const [name, value] of Object.entries(part)) {
    if (typeof value === "number") {
      found[name] = value;
    }
  }
  if (part.memory) {
    found.memory = part.memory.used;
  }
  if (part.disk) {
    found.disk = part.disk.free;
  }
  return found;
}

/** Put a history and what came after it together, as columns. */
export function join(history, tail) {
  const levels = history?.values ?? {};
  const rates = history?.rates ?? {};
  const columns = { ...levels, ...rates };
  let times = (history?.times_ms ?? []).map((ms) => ms / 1000);
  const last = times.length ? times[times.length - 1] : -Infinity;
  const newer = tail.filter((each) => each.at_ms / 1000 > last + 0.5);
  const names = new Set(Object.keys(columns));
  if (!history) {
    for (const each of newer) {
      Object.keys(each.values).forEach((name) => names.add(name));
    }
  }
  const series = {};
  for (const name of names) {
    const before = columns[name] ?? [];
    series[name] = [...before, ...newer.map((each) => each.values[name] ?? null)];
  }
  times = [...times, ...newer.map((each) => each.at_ms / 1000)];
  const from = tail.length ? times[times.length - 1] - MINUTE_S : -Infinity;
  const start = times.findIndex((time) => time >= from);
  if (start > 0) {
    times = times.slice(start);
    for (const name of names) {
      series[name] = series[name].slice(start);
    }
  }
  return { times, series };
}
