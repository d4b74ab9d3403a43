/* Cells of lists: numbers and rates, in which a zero is quiet; names with their virtual host. */

import { count, rate } from "../core/format.js";
import { html } from "../core/html.js";
import { statRate } from "../core/stats.js";

function Quiet({ value, text }) {
  return value ? text : html`<span class="zero">${text}</span>`;
}

/** A column of counts. */
export function countColumn(name, title, hint) {
  return {
    name,
    title,
    hint,
    sort: name,
    align: "right",
    cell: (row) => html`<${Quiet} value=${row[name]} text=${count(row[name])} />`,
  };
}

/** A column of rates of `message_stats`. */
export function rateColumn(name, title, hint) {
  return {
    name: `${name}_rate`,
    title,
    hint,
    sort: `message_stats.${name}_details.rate`,
    align: "right",
    cell: (row) => {
      const value = statRate(row, name);
      return html`<${Quiet} value=${value} text=${rate(value)} />`;
    },
  };
}

/** The column of the virtual host; of a list of all of them only. */
export function vhostColumn(vhost) {
  return vhost === null
    ? [
        {
          name: "vhost",
          title: "Virtual host",
          sort: true,
          under: true,
          cell: (row) => html`<span class="name">${row.vhost}</span>`,
        },
      ]
    : [];
}
