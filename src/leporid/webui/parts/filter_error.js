/* What is wrong with a filter: the sentence, and the text with a mark under the character.
   Must not know grammars: the broker says where. */

import { html } from "../core/html.js";
import { Notice } from "./notice.js";

const AROUND = 60;

/** @param {{error: object, text: string}} props an ApiError; `text`: the expression or the tags. */
export function FilterError({ error, text }) {
  const at = error.facts?.position;
  if (typeof at !== "number" || !text) {
    return html`<${Notice} kind="bad">${error.message}<//>`;
  }
  // The broker counts characters; a text of the page is indexed by UTF-16 units.
  const points = [...text.replace(/\s/g, " ")];
  const from = Math.max(0, at - AROUND);
  const before = points.slice(from, at).join("");
  const after = points.slice(at + 1, at + AROUND).join("");
  return html`<${Notice} kind="bad">
    <p>${error.message}</p>
    <pre class="filter-error" aria-hidden="true">${from > 0 && "…"}${before}<mark>${
      points[at] ?? " "}</mark>${after}</pre>
  <//>`;
}
