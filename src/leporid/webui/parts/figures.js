/* A strip of numbers with their names; each may lead to a page. */

import { html } from "../core/html.js";

/** @param {object} props items: {name, value, href?, title?}[]; what has no value is left out. */
export function Figures({ items }) {
  return html`<div class="figures">
    ${items.filter(Boolean).map(({ name, value, href, title }) => {
      const inner = html`<span class="figure-name">${name}</span
        ><span class="figure-value">${value}</span>`;
      return href
        ? html`<a class="figure" key=${name} href=${href} title=${title}>${inner}</a>`
        : html`<div class="figure" key=${name} title=${title}>${inner}</div>`;
    })}
  </div>`;
}
