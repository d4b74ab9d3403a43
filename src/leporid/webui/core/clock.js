/* The broker's clock: how old something is, and when something is due, is a matter of its time.

   Must not know what is dated. Invariant: the clock of this machine counts, unless the broker's
   differs from it by more than an answer can be late. */

const DIFFERENCE_MIN_MS = 3000;

// How far the broker's clock is ahead of this machine's.
let aheadMs = 0;

/** Compare the clocks by the header Date of an answer that has just come; null: it has none. */
export function compareClocks(date) {
  const ms = Date.parse(date ?? "") - Date.now();
  if (!Number.isNaN(ms)) {
    aheadMs = Math.abs(ms) < DIFFERENCE_MIN_MS ? 0 : ms;
  }
}

/** The time at the broker, in milliseconds since 1970. */
export function brokerNow() {
  return Date.now() + aheadMs;
}
