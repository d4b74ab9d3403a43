/* A button: pressed once at a time, and saying why it cannot be.

   Must not know what it does. Invariant: a disabled button with a reason stays reachable by
   keyboard, so that everybody can read the reason. */

import { html, useState } from "../core/html.js";

let ids = 0;

/**
 * @param {object} props
 * @param {function} props.onClick may return a promise: the button is busy until it settles.
 * @param {"plain"|"main"|"danger"|"quiet"} [props.kind]
 * @param {boolean} [props.disabled]
 * @param {string} [props.why] the reason; with it, the button is disabled.
 * @param {string} [props.label] what screen readers say, where the children are a sign.
 */
export function Button({
  onClick,
  kind = "plain",
  disabled = false,
  why = "",
  type = "button",
  label,
  title,
  children,
  ...rest
}) {
  const [busy, setBusy] = useState(false);
  const [id] = useState(() => `why-${(ids += 1)}`);
  const refused = Boolean(why);
  const press = async (event) => {
    if (refused) {
      event.preventDefault();
      return;
    }
    const done = onClick?.(event);
    if (done?.then) {
      setBusy(true);
      try {
        await done;
      } finally {
        setBusy(false);
      }
    }
  };
  return html`<button
      ...${rest}
      type=${type}
      class=${`button ${kind}`}
      disabled=${!refused && (disabled || busy)}
      aria-disabled=${refused ? "true" : undefined}
      aria-busy=${busy ? "true" : undefined}
      aria-describedby=${refused ? id : undefined}
      aria-label=${label}
      title=${why || title}
      onClick=${press}
      >${children}</button
    >${refused && html`<span id=${id} class="only-read">${why}</span>`}`;
}
