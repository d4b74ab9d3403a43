/* What stands where there is nothing yet: what this place is for, and what to do next. */

import { html } from "../core/html.js";

/** @param {object} props title, and children: a sentence or a button. */
export function Empty({ title, children }) {
  return html`<div class="empty">
    <p class="empty-title">${title}</p>
    ${children && html`<div class="empty-text">${children}</div>`}
  </div>`;
}
