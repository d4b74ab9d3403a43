/* Answers of the API as the state of a component.

   Must not know what is asked for. Invariants: what was shown stays while it is asked for again;
   a hidden tab asks nothing; an answer to an earlier question never replaces a later one. */

import { get } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { useVisible } from "./visible.js";

// A broker that takes long to answer is asked less often: for a tenth of the time at most.
const PAUSE_FACTOR = 9;
const NOTHING = { data: null, error: null, loading: true, of: null };

/**
 * Ask a route, and again every so often.
 *
 * @param {string[]|null} path as api.get; null asks nothing.
 * @param {object} [query] as api.get.
 * @param {{every?: number}} [options] milliseconds between two questions; without it, one is asked.
 * @returns {{data: any, error: Error|null, loading: boolean, reload: function(): Promise}}
 *   `data` is null until the first answer, and again when the path changes.
 */
export function useData(path, query, { every } = {}) {
  const visible = useVisible();
  const [found, setFound] = useState(NOTHING);
  const asking = useRef(null);
  const answered = useRef(null);
  const object = path === null ? null : JSON.stringify(path);
  const question = JSON.stringify([path, query ?? null]);

  const load = useCallback(async () => {
    const [asked, values] = JSON.parse(question);
    asking.current?.abort();
    if (asked === null) {
      return;
    }
    const control = new AbortController();
    asking.current = control;
    try {
      const data = await get(asked, values, { signal: control.signal });
      if (!control.signal.aborted) {
        answered.current = question;
        setFound({ data, error: null, loading: false, of: object });
      }
    } catch (error) {
      if (error.name === "AbortError" || control.signal.aborted) {
        return;
      }
      setFound((before) => ({
        data: before.of === object ? before.data : null,
        error,
        loading: false,
        of: object,
      }));
    }
  }, [question, object]);

  useEffect(() => {
    setFound((before) => (before.of === object ? { ...before, loading: true } : NOTHING));
    return () => asking.current?.abort();
  }, [question, object]);

  useEffect(() => {
    if (!visible || object === null) {
      return undefined;
    }
    let timer = null;
    let ended = false;
    const again = async () => {
      const started = performance.now();
      await load();
      if (!ended && every) {
        const tookMs = performance.now() - started;
        timer = setTimeout(again, Math.max(every, tookMs * PAUSE_FACTOR));
      }
    };
    // What is asked once is not asked again because the tab was hidden for a while.
    if (every || answered.current !== question) {
      again();
    }
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [visible, load, every, object, question]);

  const shown = found.of === object ? found : NOTHING;
  return { data: shown.data, error: shown.error, loading: shown.loading, reload: load };
}
