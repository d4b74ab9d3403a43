/* What a list asks the broker, of what its address says; and the lines that ask the same elsewhere.

   Must not know what the rows of a list are, nor draw them. */

import { list } from "./commands.js";

/** How many rows a page of a list can have. */
export const SIZES = ["25", "50", "100", "250", "500"];
const SIZE = "100";

/**
 * Return what an address says of a list.
 *
 * @param {object} query of the address.
 * @param {{prefix?: string, sorted?: string, reverse?: boolean, filters?: object[]}} list as the
 *   properties of `parts/list.js`.
 */
export function stateOf(query, { prefix = "", sorted, reverse = false, filters = [] }) {
  const own = (name) => query[`${prefix}${name}`];
  const given = own("sort");
  const chosen = new Map(
    filters.flatMap((each) => {
      const option = each.options.find(({ value }) => value === own(each.name));
      return option ? [[each.name, option]] : [];
    }),
  );
  const isOwn = (name) => filters.some((each) => each.name === name && each.own);
  const conditions = (isOne) => [...chosen].filter(([name]) => isOne(name)).map(
    ([name, { value, where }]) => where ?? `${name}=${value}`,
  );
  return {
    chosen,
    where: conditions((name) => !isOwn(name)),
    own: Object.fromEntries(
      [...chosen].filter(([name]) => isOwn(name)).map(([name, { value }]) => [name, value]),
    ),
    page: /^[1-9]\d{0,8}$/.test(own("page") ?? "") ? own("page") : "1",
    size: SIZES.includes(own("size")) ? own("size") : SIZE,
    name: own("name") ?? "",
    regex: own("regex") === "1",
    order: given
      ? { name: given, reverse: own("reverse") === "1" }
      : { name: sorted ?? null, reverse },
  };
}

/** Return the parameters of the route; `query`: those that the list has in any state. */
export function questionOf(state, query = {}) {
  return {
    page: state.page,
    page_size: state.size,
    sort: state.order.name,
    sort_reverse: state.order.name ? String(state.order.reverse) : undefined,
    name: state.name || undefined,
    use_regex: state.regex && state.name ? "true" : undefined,
    ...query,
    ...state.own,
    where: [...(query.where ?? []), ...state.where],
  };
}

/**
 * Return the command line and the call that list what the page does, as a page takes them.
 *
 * @param {string} noun of `leporid NOUN list`.
 * @param {object} props of the list: `path`, and what `stateOf` and `query` need.
 * @param {object} query of the address.
 * @param {string|null} [vhost] whose rows they are; null: all.
 * @param {{conditions?: string[], names?: string[], given?: string[]}} [own] `conditions`: what the
 *   path says and the command has to be told; others as for `list`.
 */
export function linesOf(noun, props, query, vhost = null, { conditions = [], ...more } = {}) {
  const state = stateOf(query, props);
  // Columns are what the page draws: who asks elsewhere wants all.
  const { columns: _, ...asked } = questionOf(state, props.query);
  const own = Object.entries(state.own).map(([name, value]) => `${name}=${value}`);
  return {
    cli: list(noun, { ...asked, where: [...conditions, ...asked.where, ...own] }, vhost, more),
    http: { path: props.path, query: asked },
  };
}
