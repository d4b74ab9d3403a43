/* A list that the broker sorts, filters and pages; its state stands in the address.

   Must not know what its rows are. Invariant: no more rows are asked for than are shown. */

import { useData } from "../core/data.js";
import { count } from "../core/format.js";
import { html, useEffect, useRef, useState } from "../core/html.js";
import { SIZES, questionOf, stateOf } from "../core/list_query.js";
import { setQuery, useRoute } from "../core/route.js";
import { HeadCell, cells } from "./head_cell.js";
import { Notice } from "./notice.js";

const TYPING_MS = 250;

/**
 * @param {object} props
 * @param {string[]} props.path the route of the list.
 * @param {{name: string, title: string, sort?: boolean|string, align?: string,
 *   wide?: boolean, under?: boolean, cell?: function(object): any}[]} props.columns
 *   `sort`: the field to sort by; true: `name`.
 *   `wide`: not shown on narrow screens; `under`: shown there below the first column.
 * @param {object} [props.query] more parameters of the route.
 * @param {boolean} [props.filterable] whether names can be searched.
 * @param {string} [props.search] what the field for that is called.
 * @param {any} props.empty shown if there is nothing, and nothing was filtered out.
 * @param {function(object): string} props.rowKey
 * @param {number} [props.every] milliseconds between two looks; 5000 unless given.
 * @param {string} [props.prefix] of the names in the address, for two lists on one page.
 * @param {string} [props.caption] what the table is, for screen readers.
 * @param {string} [props.sorted] the field it is sorted by unless the reader says something else.
 * @param {boolean} [props.reverse] the order of that.
 * @param {{name: string, title: string, options: {value: string, label: string,
 *   where?: string}[]}[]} [props.filters] what the list can be narrowed to beside names;
 *   `where` is the condition of the API, `NAME=VALUE` unless given. With `own: true` NAME is a
 *   parameter of the route itself.
 * @param {any} [props.tools] more controls beside the search field.
 * @param {number} [props.version] asks again when it changes.
 * @param {function(object[])} [props.onRows] is told the rows of each answer.
 */
export function List({
  path,
  columns,
  query = {},
  filterable = true,
  search = "Filter by name",
  empty,
  rowKey,
  every = 5000,
  prefix = "",
  caption = "List",
  sorted,
  reverse = false,
  filters = [],
  tools,
  version = 0,
  onRows,
}) {
  const state = useListState(prefix, sorted, reverse, filters);
  const question = questionOf(state, query);
  const { data, error, loading, reload } = useData(path, question, { every });
  useEffect(() => {
    if (data !== null) {
      onRows?.(data.items);
    }
  }, [data]);
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) {
      reload();
    }
    first.current = false;
  }, [version]);
  useEffect(() => {
    // Rows have gone meanwhile, and with them the page.
    if (error?.error === "page_out_of_range") {
      state.set({ page: null }, true);
    }
  }, [error]);

  const rows = data?.items ?? [];
  const none = data !== null && rows.length === 0;
  const untouched = !state.name && !state.chosen.size && Number(state.page) === 1;
  return html`<section class="list-box" aria-busy=${loading ? "true" : "false"}>
    ${(filterable || filters.length > 0 || tools) &&
    html`<div class="list-head">
      ${filterable && html`<${Search} state=${state} title=${search} />`}
      ${filters.map((each) => html`<${Narrow} key=${each.name} filter=${each} state=${state} />`)}
      ${tools}
      <span class="list-count" role="status">${data && counts(data)}</span>
    </div>`}
    ${error &&
    error.error !== "page_out_of_range" &&
    html`<${Notice} kind="bad">${error.message}<//>`}
    ${none && untouched && empty
      ? empty
      : html`<div class="scroll" role="region" aria-label=${caption} tabindex="0">
          <table class="list">
            <caption class="only-read">${caption}</caption>
            <thead>
              <tr>
                ${columns.map((each) => html`<${Head} key=${each.name} column=${each}
                  state=${state} />`)}
              </tr>
            </thead>
            <tbody>
              ${rows.map(
                (row) =>
                  html`<tr key=${rowKey(row)}>
                    ${cells(columns, row)}
                  </tr>`,
              )}
              ${none &&
              html`<tr><td class="none" colspan=${columns.length}>Nothing matches.</td></tr>`}
              ${data === null &&
              !error &&
              html`<tr><td class="none" colspan=${columns.length}>Loading…</td></tr>`}
            </tbody>
          </table>
        </div>`}
    ${data && html`<${Pages} data=${data} state=${state} />`}
  </section>`;
}

function counts({ filtered_count: filtered, total_count: total }) {
  return filtered === total ? `${count(total)} in all` : `${count(filtered)} of ${count(total)}`;
}

/** What the address says of a list, and how to change it. */
function useListState(prefix, sorted, reverse, filters) {
  const { query } = useRoute();
  const set = (values, replace = false) => {
    const named = Object.entries(values).map(([name, value]) => [`${prefix}${name}`, value]);
    setQuery(Object.fromEntries(named), { replace });
  };
  return { ...stateOf(query, { prefix, sorted, reverse, filters }), set };
}

function Head({ column, state }) {
  const field = column.sort === true ? column.name : column.sort;
  const { order } = state;
  const sort = () => {
    // Numbers are looked through from the largest on.
    const first = column.align === "right";
    const reversed = order.name === field ? !order.reverse : first;
    state.set({ sort: field, reverse: reversed ? "1" : null, page: null });
  };
  return html`<${HeadCell} column=${{ ...column, name: field || column.name }} order=${order}
    onSort=${field ? sort : null} />`;
}

/** A select that narrows the list; what it is set to stands in the address. */
function Narrow({ filter, state }) {
  const { name, title, options } = filter;
  const value = state.chosen.get(name)?.value ?? "";
  return html`<label class="narrow"
    ><span class="only-read">${title}</span>
    <select class=${value ? "is-set" : ""} value=${value}
      onChange=${(event) => state.set({ [name]: event.target.value || null, page: null })}>
      <option value="" selected=${!value}>${title}: all</option>
      ${options.map((each) => html`<option key=${each.value} value=${each.value}
        selected=${each.value === value}>${title}: ${each.label}</option>`)}
    </select></label
  >`;
}

function Search({ state, title }) {
  const [text, setText] = useState(state.name);
  const timer = useRef(null);
  useEffect(() => setText(state.name), [state.name]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (event) => {
    const value = event.target.value;
    setText(value);
    clearTimeout(timer.current);
    const search = () => state.set({ name: value || null, page: null }, true);
    timer.current = setTimeout(search, TYPING_MS);
  };
  return html`<label class="search"
      ><span class="only-read">${title}</span
      ><input type="search" placeholder=${title} value=${text} spellcheck=${false}
        onInput=${typed}
    /></label>
    <label class="check-inline"
      ><input type="checkbox" checked=${state.regex}
        onChange=${(event) => state.set({ regex: event.target.checked ? "1" : null, page: null })}
      />Regular expression</label
    >`;
}

function Pages({ data, state }) {
  const { page, page_count: pages, page_size: size, filtered_count: filtered } = data;
  if (filtered <= Math.min(size, Number(SIZES[0]))) {
    return null;
  }
  const to = (number) => () => state.set({ page: number === 1 ? null : String(number) });
  const first = (page - 1) * size + 1;
  const last = Math.min(page * size, filtered);
  return html`<nav class="pages" aria-label="Pages of this list">
    <button type="button" class="button" disabled=${page <= 1} onClick=${to(1)}
      aria-label="First page">«</button>
    <button type="button" class="button" disabled=${page <= 1} onClick=${to(page - 1)}
      aria-label="Previous page">‹</button>
    <span class="pages-at">${count(first)}–${count(last)} of ${count(filtered)}</span>
    <button type="button" class="button" disabled=${page >= pages} onClick=${to(page + 1)}
      aria-label="Next page">›</button>
    <button type="button" class="button" disabled=${page >= pages} onClick=${to(pages)}
      aria-label="Last page">»</button>
    <label class="pages-size"
      ><select aria-label="Rows on a page" value=${state.size}
        onChange=${(event) => state.set({ size: event.target.value, page: null })}>
        ${SIZES.map((each) => html`<option key=${each} value=${each}
          selected=${each === state.size}>${each}</option>`)}
      </select>
      rows</label
    >
  </nav>`;
}
