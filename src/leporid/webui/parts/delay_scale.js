/* A logarithmic scale of time from now on: where a moment stands, its ticks, and bins.
   Pure arithmetic; must not know the DOM. A place is a power of ten of milliseconds. */

const YEAR = 365.25 * 864e5;

/** The whole scale: from 100 ms to ten years and a bit. */
export const WHOLE = [2, Math.log10(11 * YEAR)];
/** Less than this is no zoom any more. */
export const NARROW = 0.05;

const TICKS = [
  [100, "100 ms"], [200], [500, "½ s"], [1000, "1 s"], [2000], [5000, "5 s"], [1e4, "10 s"],
  [2e4], [3e4, "30 s"], [6e4, "1 min"], [12e4], [3e5, "5 min"], [6e5], [9e5, "15 min"], [18e5],
  [36e5, "1 h"], [72e5], [108e5, "3 h"], [216e5, "6 h"], [432e5, "12 h"], [864e5, "1 day"],
  [1728e5, "2 d"], [2592e5], [6048e5, "1 week"], [12096e5, "2 w"], [30 * 864e5, "1 month"],
  [61 * 864e5], [91 * 864e5, "3 mo"], [182 * 864e5, "6 mo"], [YEAR, "1 year"], [2 * YEAR, "2 y"],
  [5 * YEAR, "5 y"], [10 * YEAR, "10 y"],
];

/** The ticks of a range: their places, and labels where there is room. */
export function ticksIn([low, high], most) {
  const found = TICKS.map(([ms, label]) => ({ at: Math.log10(ms), ms, label }))
    .filter(({ at }) => at >= low && at <= high);
  if (found.length < 3) {
    return evenTicks([low, high], Math.min(most, 6));
  }
  let last = -Infinity;
  const gap = (high - low) / most;
  return found.map((one) => {
    const fits = one.label && one.at - last >= gap;
    last = fits ? one.at : last;
    return fits ? one : { ...one, label: "" };
  });
}

function evenTicks([low, high], count) {
  const from = 10 ** low;
  const step = (10 ** high - from) / count;
  return Array.from({ length: count + 1 }, (_, at) => {
    const ms = from + at * step;
    return { at: Math.log10(ms), ms, label: null };
  });
}

/** Edges of bins, as waits in milliseconds. */
export function edgesOf([low, high], bins) {
  const found = [];
  for (let at = 0; at <= bins; at += 1) {
    const ms = Math.round(10 ** (low + ((high - low) * at) / bins));
    if (!found.length || ms > found.at(-1)) {
      found.push(ms);
    }
  }
  return found;
}

/** A range made smaller or larger round a place. */
export function zoomed([low, high], by, at = (low + high) / 2) {
  const next = [at - (at - low) * by, at + (high - at) * by];
  return clamped(next);
}

/** A range moved by a part of itself. */
export function moved([low, high], part) {
  const by = (high - low) * part;
  const span = high - low;
  const start = Math.min(WHOLE[1] - span, Math.max(WHOLE[0], low + by));
  return [start, start + span];
}

function clamped([low, high]) {
  const from = Math.max(WHOLE[0], low);
  const to = Math.min(WHOLE[1], high);
  return to - from < NARROW ? [from, Math.min(WHOLE[1], from + NARROW)] : [from, to];
}
