/* A field for the name of something that is there: chosen from a list, or typed where the list is
   too long to be shown. Must not know what the name is for. */

import { useData } from "../core/data.js";
import { html } from "../core/html.js";
import { Field } from "./form.js";

const LISTED_MAX = 500;

/**
 * @param {object} props as of Field, and
 * @param {string[]} props.path the list of the API whose names are offered.
 * @param {object} [props.query] more parameters of that list.
 * @param {string} [props.none] what the choice of nothing is called.
 */
export function KnownName({ path, query = {}, value, none = "choose …", ...rest }) {
  const { data } = useData(path, {
    ...query, columns: "name", page: 1, page_size: LISTED_MAX, sort: "name",
  });
  const names = (data?.items ?? []).map((each) => each.name);
  if (data?.page_count > 1) {
    return html`<${Field} ...${rest} value=${value} options=${names} autocomplete="off"
      spellcheck=${false} />`;
  }
  const shown = value && !names.includes(value) ? [value, ...names] : names;
  const options = [
    { value: "", label: none },
    ...shown.map((name) => ({ value: name, label: name })),
  ];
  return html`<${Field} ...${rest} type="select" value=${value} options=${options} />`;
}
