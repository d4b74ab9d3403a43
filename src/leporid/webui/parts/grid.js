/* A table of a bounded array, sorted here; the order may stand in the address.

   Must not ask the broker anything: lists of what may be many are `list.js`. */

import { html, useMemo, useState } from "../core/html.js";
import { setQuery, useRoute } from "../core/route.js";
import { HeadCell, cells } from "./head_cell.js";

function compare(left, right) {
  if (typeof left === "number" && typeof right === "number") {
    return left - right;
  }
  return String(left ?? "").localeCompare(String(right ?? ""), "en", { numeric: true });
}

/** The order of a table and how to change it: here, or in the address. */
function useOrder(prefix) {
  const { query } = useRoute();
  const here = useState({ name: null, reverse: false });
  if (prefix === undefined) {
    return here;
  }
  const order = {
    name: query[`${prefix}sort`] ?? null, reverse: query[`${prefix}reverse`] === "1",
  };
  const set = ({ name, reverse }) =>
    setQuery({ [`${prefix}sort`]: name, [`${prefix}reverse`]: reverse ? "1" : null });
  return [order, set];
}

/**
 * @param {object} props
 * @param {object[]} props.rows
 * @param {object[]} props.columns {name, title, cell?, align?, value?: row => what it sorts by};
 *   `wide` and `under` as in `list.js`.
 * @param {any} props.empty shown without rows.
 * @param {function(object): string} [props.rowKey]
 * @param {string} props.caption what the table is, for screen readers.
 * @param {string} [props.prefix] of the names in the address; without it, the order is not there.
 */
export function Grid({ rows, columns, empty, rowKey, caption, prefix }) {
  const [order, setOrder] = useOrder(prefix);
  const sorted = useMemo(() => {
    const column = columns.find((each) => each.name === order.name);
    if (!column) {
      return rows;
    }
    const value = column.value ?? ((row) => row[column.name]);
    const found = [...rows].sort((left, right) => compare(value(left), value(right)));
    return order.reverse ? found.reverse() : found;
  }, [rows, order, columns]);
  if (rows.length === 0 && empty !== undefined) {
    return empty;
  }
  const sort = (name) => setOrder({ name, reverse: order.name === name && !order.reverse });
  return html`<div class="scroll" role="region" aria-label=${caption} tabindex="0">
    <table class="list">
      <caption class="only-read">${caption}</caption>
      <thead>
        <tr>
          ${columns.map(
            (each) =>
              html`<${HeadCell} key=${each.name} column=${each} order=${order}
                onSort=${each.title && each.sort !== false ? () => sort(each.name) : null} />`,
          )}
        </tr>
      </thead>
      <tbody>
        ${sorted.map(
          (row, at) =>
            html`<tr key=${rowKey ? rowKey(row) : at}>
              ${cells(columns, row)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
