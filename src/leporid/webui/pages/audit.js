/* Who has changed what over HTTP, and what became of it, the newest first.

   Must not know what an act does: a path and a status say it. */

import { brokerNow } from "../core/clock.js";
import { option } from "../core/commands.js";
import { age, moment } from "../core/format.js";
import { html } from "../core/html.js";
import { linesOf } from "../core/list_query.js";
import { href, setQuery } from "../core/route.js";
import { useVhost } from "../core/vhost.js";
import { Empty } from "../parts/empty.js";
import { List } from "../parts/list.js";
import { Page } from "../parts/page.js";

const KINDS = { done: "good", refused: "warn", failed: "bad" };

const COLUMNS = [
  {
    name: "at_ms",
    title: "When",
    cell: (row) => html`<span class="moment" title=${age(brokerNow() - row.at_ms)}
      >${moment(row.at_ms)}</span>`,
  },
  {
    name: "user",
    title: "User",
    under: true,
    cell: (row) =>
      row.user === null
        ? html`<span class="soft" title="The login was refused, or there was none.">nobody</span>`
        : html`<a class="name" href=${href(["users", row.user])}>${row.user}</a>`,
  },
  {
    name: "path",
    title: "Did",
    cell: (row) => html`<code class="name">${row.method} ${plain(row.path)}</code>`,
  },
  {
    name: "outcome",
    title: "Outcome",
    under: true,
    cell: (row) => html`<span class=${`state ${KINDS[row.outcome] ?? ""}`}
      title=${`HTTP ${row.status}`}>${row.outcome}</span>`,
  },
  { name: "reason", title: "Why", wide: true, cell: (row) => html`<span class="name"
    >${row.reason}</span>` },
  { name: "address", title: "From", wide: true, cell: (row) => html`<span class="name"
    >${row.address}</span>` },
];

const FILTERS = [
  {
    name: "outcome",
    title: "Outcome",
    own: true,
    options: Object.keys(KINDS).map((value) => ({ value, label: value })),
  },
];

/** The path with names as they are read, but for slashes; what is not UTF-8 stays encoded. */
function plain(path) {
  try {
    return path.split("/").map((each) => decodeURIComponent(each).replaceAll("/", "%2F")).join("/");
  } catch {
    return path;
  }
}

/** The page #/audit; `?user=NAME` is about one user. */
export default function Audit({ query }) {
  const vhost = useVhost();
  const asked = { user: query.user || undefined, vhost: vhost ?? undefined };
  const list = { path: ["audit"], query: asked, filters: FILTERS };
  const own = { given: query.user ? [option("of", query.user)] : [] };
  return html`<${Page} title="Audit" ...${linesOf("audit", list, query, vhost, own)}>
    <p class="soft">What was changed over HTTP, by this page, by commands and by programs, and what
      was refused. The newest are in memory; the log of the broker has all of them.</p>
    ${query.user && html`<p>Of user <strong class="name">${query.user}</strong>.
      ${" "}<button type="button" class="button quiet"
        onClick=${() => setQuery({ user: null, page: null })}>Show all users</button></p>`}
    <${List} ...${list} columns=${COLUMNS}
      caption="Audit" search="Filter by path" rowKey=${(row) => row.id}
      empty=${html`<${Empty} title="Nothing yet">
        Nobody has changed anything${vhost !== null && " there"} since the broker started. What is
        changed on these pages, by <code>leporid</code> or over HTTP stands here.<//>`} />
  <//>`;
}
