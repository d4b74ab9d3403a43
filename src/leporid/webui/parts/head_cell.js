/* The head of a column: a button if the table can be sorted by it. */

import { html } from "../core/html.js";

/** The class of a column's cells. */
export function cellClass({ align, wide }) {
  return [align, wide && "wide-only"].filter(Boolean).join(" ");
}

/** @param {object} props column {name, title, align}, order {name, reverse}, onSort or null. */
export function HeadCell({ column, order, onSort }) {
  const mine = order.name === column.name;
  const sorted = mine ? (order.reverse ? "descending" : "ascending") : undefined;
  const title = column.title || html`<span class="only-read">${column.label ?? "Actions"}</span>`;
  return html`<th scope="col" class=${cellClass(column)} aria-sort=${sorted}
    >${onSort
      ? html`<button type="button" class="sort" title=${column.hint} onClick=${onSort}
          >${title}<span class="sort-sign" aria-hidden="true"
            >${mine ? (order.reverse ? "↓" : "↑") : ""}</span
          ></button
        >`
      : title}</th>`;
}
