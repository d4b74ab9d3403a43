/* A JSON value as a tree that unfolds; what is folded is not drawn.

   Must not know what the value is. Invariant: of each level CHILDREN_MAX members are drawn. */

import { count } from "../core/format.js";
import { html, useState } from "../core/html.js";

const OPEN_DEPTH = 2;
const CHILDREN_MAX = 200;
const TEXT_MAX = 2000;

/** @param {object} props value: anything that JSON.parse gives. */
export function JsonTree({ value }) {
  return html`<div class="tree">${node(value, null, 0)}</div>`;
}

function node(value, name, depth) {
  if (value !== null && typeof value === "object") {
    return html`<${Branch} value=${value} name=${name} depth=${depth} key=${name} />`;
  }
  const kind = value === null ? "null" : typeof value;
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  return html`<div class="leaf" key=${name}>
    ${label(name)}<span class=${`json-${kind}`}>${text.length > TEXT_MAX
      ? `${text.slice(0, TEXT_MAX)}…`
      : text}</span>
  </div>`;
}

function label(name) {
  return name !== null && html`<span class="json-name">${name}</span><span class="soft">: </span>`;
}

function Branch({ value, name, depth }) {
  const [open, setOpen] = useState(depth < OPEN_DEPTH);
  const entries = Object.entries(value);
  const brackets = Array.isArray(value) ? "[]" : "{}";
  const size = entries.length ? `${brackets[0]} ${count(entries.length)} ${brackets[1]}` : brackets;
  return html`<details class="branch" open=${open}
    onToggle=${(event) => {
      // A branch within this one tells of itself, too.
      if (event.target === event.currentTarget) {
        setOpen(event.currentTarget.open);
      }
    }}>
    <summary>${label(name)}<span class="soft">${size}</span></summary>
    ${open &&
    html`<div class="children">
      ${entries.slice(0, CHILDREN_MAX).map(([key, each]) => node(each, key, depth + 1))}
      ${entries.length > CHILDREN_MAX &&
      html`<div class="soft">… and ${count(entries.length - CHILDREN_MAX)} more</div>`}
    </div>`}
  </details>`;
}
