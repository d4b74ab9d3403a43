/* The head of a column, a button if the table can be sorted by it; and the cells of a row. */

import { html } from "../core/html.js";

/** The class of a column's cells. */
function cellClass({ align, wide, under }) {
  return [align, (wide || under) && "wide-only"].filter(Boolean).join(" ");
}

function content(column, row) {
  return column.cell ? column.cell(row) : row[column.name];
}

/**
 * The cells of a row. On narrow screens, where there is no room for them beside it, what belongs
 * to a name stands below it: columns with `under`.
 */
export function cells(columns, row) {
  const below = columns.filter((each) => each.under);
  return columns.map(
    (each, at) =>
      html`<td key=${each.name} class=${cellClass(each)}>${content(each, row)}${at === 0 &&
      below.map(
        (one) => html`<div key=${one.name} class="under"><span class="under-title"
          >${one.title}</span> ${content(one, row)}</div>`,
      )}</td>`,
  );
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
