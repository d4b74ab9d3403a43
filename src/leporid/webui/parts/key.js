/* A table of names and values: the facts of one object.

   `rows` is [[name, value], …]; a row whose value is null, undefined or false is left out. */

import { html } from "../core/html.js";

/** @param {object} props rows, or children: <dt> and <dd>. */
export function Key({ rows, children }) {
  return html`<dl class="key">
    ${rows
      ?.filter(([, value]) => value !== null && value !== undefined && value !== false)
      .map(([name, value]) => html`<dt>${name}</dt><dd>${value === "" ? "–" : value}</dd>`)}
    ${children}
  </dl>`;
}
