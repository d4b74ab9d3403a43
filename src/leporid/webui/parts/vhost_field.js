/* The field of a form that says in which virtual host. */

import { useData } from "../core/data.js";
import { html, useEffect } from "../core/html.js";
import { Field } from "./form.js";

/** @param {object} props value: a name, or ""; onInput. The first one is chosen by itself. */
export function VhostField({ value, onInput }) {
  const { data } = useData(["vhosts"], { columns: "name", page: 1, page_size: 500 });
  const names = (data?.items ?? []).map((each) => each.name);
  useEffect(() => {
    if (names.length && !names.includes(value)) {
      onInput(names.includes("/") ? "/" : names[0]);
    }
  }, [data]);
  if (value && !names.includes(value)) {
    names.unshift(value);
  }
  return html`<${Field} label="Virtual host" name="vhost" type="select" options=${names}
    value=${value} onInput=${onInput} />`;
}
