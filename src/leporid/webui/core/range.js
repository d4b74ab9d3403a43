/* The time range that charts show; it stands in the address.

   Invariant: all charts of a page show the same range. */

import { setQuery, useRoute } from "./route.js";

const RANGES = ["minute", "hour", "day"];
const DEFAULT = RANGES[0];

function pick(range) {
  setQuery({ range: range === DEFAULT ? null : range }, { replace: true });
}

/** Return the range of the address, and the function that changes it. */
export function useRange() {
  const { range } = useRoute().query;
  return [RANGES.includes(range) ? range : DEFAULT, pick];
}
