/* What an import of definitions would change, or has not done, noun by noun.

   Must not know the document; this is what the broker says of it. Invariant: of each noun at most
   SHOWN definitions are drawn. */

import { count } from "../core/format.js";
import { html } from "../core/html.js";
import { Notice } from "./notice.js";

const SHOWN = 200;

const NOUNS = {
  vhosts: "Virtual hosts",
  users: "Users",
  permissions: "Permissions",
  topic_permissions: "Topic permissions",
  parameters: "Parameters",
  global_parameters: "Global parameters",
  policies: "Policies",
  exchanges: "Exchanges",
  queues: "Queues",
  bindings: "Bindings",
};
const KINDS = [
  ["added", "+", "is added"],
  ["changed", "~", "is changed"],
  ["conflicting", "!", "is there otherwise, and stays so"],
];

/** Return how many definitions would be added or changed. */
export function changedCount(difference) {
  return Object.keys(NOUNS).reduce((sum, noun) => {
    const { added = [], changed = [] } = difference[noun] ?? {};
    return sum + added.length + changed.length;
  }, 0);
}

/** Return how many are there otherwise, and stay. */
export function conflictCount(difference) {
  return Object.keys(NOUNS).reduce(
    (sum, noun) => sum + (difference[noun]?.conflicting ?? []).length, 0,
  );
}

/**
 * @param {object} props
 * @param {object} props.difference as the dry run of an import has it.
 * @param {boolean} [props.onlyLeft] draw conflicts and what is ignored alone.
 */
export function DifferenceTable({ difference, onlyLeft = false }) {
  const nouns = Object.keys(NOUNS).filter((noun) => difference[noun]);
  const kinds = onlyLeft ? KINDS.slice(2) : KINDS;
  const shown = nouns.filter((noun) => kinds.some(([kind]) => difference[noun][kind].length));
  return html`<div class="difference">
    ${!onlyLeft && html`<${Sums} nouns=${nouns} difference=${difference} />`}
    ${shown.map(
      (noun) => html`<${Noun} key=${noun} noun=${noun} changes=${difference[noun]}
        kinds=${kinds} />`,
    )}
    ${difference.ignored_count > 0 && html`<${Ignored} difference=${difference} />`}
  </div>`;
}

function Sums({ nouns, difference }) {
  const some = nouns.filter((noun) => {
    const { added, changed, unchanged, conflicting } = difference[noun];
    return added.length + changed.length + unchanged + conflicting.length > 0;
  });
  if (some.length === 0) {
    return html`<${Notice}>The document has no definitions.<//>`;
  }
  return html`<div class="scroll" role="region" aria-label="What would change" tabindex="0">
    <table class="list">
      <caption class="only-read">What would change</caption>
      <thead>
        <tr>
          <th scope="col">Of</th>
          ${["Added", "Changed", "Unchanged", "Conflicting"].map(
            (title) => html`<th scope="col" class="right" key=${title}>${title}</th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${some.map((noun) => {
          const { added, changed, unchanged, conflicting } = difference[noun];
          return html`<tr key=${noun}>
            <th scope="row">${NOUNS[noun]}</th>
            ${[added.length, changed.length, unchanged, conflicting.length].map(
              (number, at) => html`<td key=${at} class=${number ? "right" : "right zero"}
                >${count(number)}</td>`,
            )}
          </tr>`;
        })}
      </tbody>
    </table>
  </div>`;
}

function Noun({ noun, changes, kinds }) {
  const lines = kinds.flatMap(([kind, sign, words]) =>
    changes[kind].slice(0, SHOWN).map((one) => ({ kind, sign, words, one })),
  );
  const all = kinds.reduce((sum, [kind]) => sum + changes[kind].length, 0);
  return html`<details open=${all <= 20}>
    <summary>${NOUNS[noun]} (${count(all)})</summary>
    <ul class="changes">
      ${lines.map(
        ({ kind, sign, words, one }, at) => html`<li key=${at} class=${`change ${kind}`}>
          <span class="sign" aria-hidden="true">${sign}</span>
          <span class="name">${named(one)}</span>
          <span class="only-read">${words}</span>
          ${one.vhost !== undefined &&
          html`<span class="soft"> in <span class="name">${one.vhost}</span></span>`}
          ${one.reason && html`<span class="soft">: ${one.reason}</span>`}
        </li>`,
      )}
      ${all > lines.length && html`<li class="soft">and ${count(all - lines.length)} more</li>`}
    </ul>
  </details>`;
}

function named({ name, user, component, exchange, source, destination, routing_key: key }) {
  if (destination !== undefined) {
    return `${source || "(default)"} → ${destination}${key ? ` with ${key}` : ""}`;
  }
  if (user !== undefined) {
    return exchange === undefined ? user : `${user} on ${exchange}`;
  }
  return component === undefined ? name : `${component} ${name}`;
}

function Ignored({ difference: { ignored, ignored_count: all } }) {
  return html`<details>
    <summary>Without effect (${count(all)})</summary>
    <ul class="changes">
      ${ignored.slice(0, SHOWN).map(
        ({ what, reason }, at) => html`<li key=${at} class="change">
          <span class="name">${what}</span><span class="soft">: ${reason}</span></li>`,
      )}
      ${all > SHOWN && html`<li class="soft">and ${count(all - SHOWN)} more</li>`}
    </ul>
  </details>`;
}
