/* A component that is loaded when it is first shown. */

import { html, useEffect, useState } from "../core/html.js";
import { Unloaded } from "./unloaded.js";

/** @param {object} props load: returns a promise of the component; props: what it is given. */
export function Lazy({ load, props }) {
  const [found, setFound] = useState(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    let gone = false;
    load().then(
      (component) => gone || setFound(() => component),
      () => gone || setFailed(true),
    );
    return () => {
      gone = true;
    };
  }, [load]);
  if (failed) {
    return html`<${Unloaded} />`;
  }
  return found
    ? html`<${found} ...${props} />`
    : html`<p class="soft" aria-busy="true">Loading…</p>`;
}
