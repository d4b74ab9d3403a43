/* A sentence that the reader should see: what was done, or what is wrong. */

import { html } from "../core/html.js";

const TITLES = { info: "Note", good: "Done", warn: "Warning", bad: "Error" };

/**
 * @param {object} props
 * @param {"info"|"good"|"warn"|"bad"} [props.kind]
 * @param {function} [props.onClose] shows a button that takes it away.
 */
export function Notice({ kind = "info", children, onClose }) {
  return html`<div class=${`notice ${kind}`} role=${kind === "bad" ? "alert" : "status"}>
    <span class="only-read">${TITLES[kind]}: </span>
    <div class="notice-text">${children}</div>
    ${onClose &&
    html`<button type="button" class="button quiet" aria-label="Close this notice"
      onClick=${onClose}>×</button>`}
  </div>`;
}
