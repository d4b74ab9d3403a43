/* What a change of a policy would govern, as the broker's dry run says it. */

import { count, counted } from "../core/format.js";
import { html } from "../core/html.js";
import { Grid } from "./grid.js";
import { Notice } from "./notice.js";

const EFFECTS = {
  added: ["governed from then on", "It governs these, which nothing governs now."],
  replaced: ["taken over", "It governs these in place of another policy."],
  kept: ["still governed", "It governs these already."],
  released: ["let go", "It does not govern these any more."],
  outranked: ["outranked", "The pattern matches; another policy counts."],
};

const COLUMNS = [
  {
    name: "name",
    title: "Name",
    cell: (row) => html`<span class="name">${row.name}</span>${" "}
      <span class="soft">${row.type} ${row.kind}</span>`,
  },
  {
    name: "effect",
    title: "Becomes",
    cell: (row) => html`<span class=${`effect ${row.effect}`} title=${EFFECTS[row.effect]?.[1]}
      >${EFFECTS[row.effect]?.[0] ?? row.effect}</span>`,
  },
  {
    name: "after",
    title: "Policy",
    cell: (row) =>
      row.before === row.after
        ? named(row.after)
        : html`${named(row.before)} → ${named(row.after)}`,
  },
];

const EXCESS = {
  name: "excess",
  title: "Above the limit",
  align: "right",
  cell: (row) => (row.excess ? count(row.excess) : ""),
};

function named(text) {
  return text === null
    ? html`<span class="soft">none</span>`
    : html`<span class="name">${text}</span>`;
}

const WITH_EXCESS = [...COLUMNS, EXCESS];

/**
 * @param {object} props
 * @param {{data: object|null, error: Error|null, current: boolean}} props.preview
 * @param {string} [props.why] why none is asked for.
 * @param {boolean} [props.deleting] whether it is of a deletion.
 */
export function PolicyPreview({ preview, why = "", deleting = false }) {
  const { error, current } = preview;
  const data = why ? null : preview.data;
  return html`<section class="preview" aria-busy=${current || why ? "false" : "true"}
    aria-label="What it would govern">
    <h2>${deleting ? "What it lets go" : "What it would govern"}</h2>
    <div role="status">
      ${why && html`<p class="soft">${why}</p>`}
      ${!why && !current && !data && !error && html`<p class="soft">Asking the broker …</p>`}
      ${!why && error && html`<${Notice} kind="warn">${plain(error.message)}<//>`}
      ${data && html`<p class="preview-sum">${summary(data)}</p>`}
    </div>
    ${data?.excess > 0 &&
    html`<${Notice} kind="warn">${counted(data.excess, "message")} above the new max-length:
      queues drop what is too much at once, unless they reject instead.<//>`}
    ${data?.items.length > 0 &&
    html`<${Grid} rows=${data.items} columns=${data.excess > 0 ? WITH_EXCESS : COLUMNS}
      caption="Queues and exchanges" rowKey=${(row) => `${row.kind} ${row.name}`} />`}
    ${data && data.items.length > 0 && html`<${More} data=${data} />`}
  </section>`;
}

function plain(text) {
  return text.replace(/^Validation failed\s*/, "").trim();
}

function summary(data) {
  const parts = Object.entries(EFFECTS).flatMap(([effect, [words]]) => {
    const queues = data.queues[effect];
    const exchanges = data.exchanges[effect];
    const nouns = [
      queues && counted(queues, "queue"),
      exchanges && counted(exchanges, "exchange"),
    ].filter(Boolean);
    return nouns.length ? [`${nouns.join(" and ")} ${words}`] : [];
  });
  return parts.length ? `${parts.join("; ")}.` : "Nothing that is there now.";
}

function More({ data }) {
  const all = [data.queues, data.exchanges]
    .flatMap((counts) => Object.values(counts))
    .reduce((sum, each) => sum + each, 0);
  return all > data.items.length
    ? html`<p class="soft">${count(data.items.length)} of ${count(all)} are listed.</p>`
    : null;
}
