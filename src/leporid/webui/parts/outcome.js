/* What became of the last thing that was done on a page, said until it is closed.

   Must not know what is done. Invariant: a refusal stays until something else is done. */

import { html, useCallback, useState } from "../core/html.js";
import { Notice } from "./notice.js";

/**
 * Return {said, run, say, shown}.
 *
 * `run(work, text)` awaits `work()` and says `text` when it is done, or why it was refused;
 * it returns whether it was done. `say(text)` says something that was done elsewhere. `shown` is
 * the notice to draw.
 */
export function useOutcome() {
  const [said, setSaid] = useState(null);
  const say = useCallback((text, kind = "good") => setSaid(text && { kind, text }), []);
  const run = useCallback(async (work, text) => {
    setSaid(null);
    try {
      await work();
    } catch (error) {
      setSaid({ kind: "bad", text: error.message });
      return false;
    }
    setSaid(text ? { kind: "good", text } : null);
    return true;
  }, []);
  const shown =
    said &&
    html`<${Notice} kind=${said.kind} onClose=${() => setSaid(null)}>${said.text}<//>`;
  return { run, say, shown };
}
