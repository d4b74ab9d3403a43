/* Looking through a queue, or a stream, without changing it: filters, pages, one message open.

   Must not change anything. Invariant: the filter stands in the address, so that it can be sent to
   somebody. */

import { cat } from "../core/commands.js";
import { useData } from "../core/data.js";
import { counted } from "../core/format.js";
import { html, useEffect, useState } from "../core/html.js";
import { href, setQuery, useRoute } from "../core/route.js";
import { Button } from "./button.js";
import { Empty } from "./empty.js";
import { Field } from "./form.js";
import { MessageList } from "./message_list.js";
import { Notice } from "./notice.js";
import { Same } from "./page.js";

const LIMITS = ["20", "50", "100", "500"];
const TRUNCATE = 50_000;
const FIELDS = ["filter", "tags", "key", "unacked", "limit"];

/** An error with its place in the expression. */
export function FilterError({ error, text }) {
  const position = error.facts?.position ?? 0;
  const place = `${text}\n${" ".repeat(Math.max(0, position))}^`;
  return html`<${Notice} kind="bad">
    <p>${error.message}</p>
    ${error.facts?.position !== undefined &&
    text &&
    html`<pre class="filter-place" aria-label=${`Character ${position + 1}`}>${place}</pre>`}
  <//>`;
}

/** @param {object} props path: of the queue or stream in the API; cli: a part of its URL. */
export function Browse({ path, name, isStream = false, version = 0 }) {
  const { query } = useRoute();
  const [typed, setTyped] = useState({});
  useEffect(() => {
    setTyped(Object.fromEntries(FIELDS.map((each) => [each, query[each] ?? ""])));
  }, FIELDS.map((each) => query[each]));
  const limit = LIMITS.includes(query.limit) ? query.limit : LIMITS[1];
  const question = {
    limit,
    from: query.from,
    truncate: TRUNCATE,
    filter: query.filter,
    tags: query.tags,
    routing_key: query.key,
    unacked: query.unacked ? "true" : undefined,
  };
  const { data, error, loading, reload } = useData([...path, "browse"], question);
  useEffect(() => {
    if (version) {
      reload();
    }
  }, [version]);
  const set = (field) => (value) => setTyped((before) => ({ ...before, [field]: value }));
  const search = (event) => {
    event.preventDefault();
    const values = Object.fromEntries(
      FIELDS.map((each) => [each, typed[each] === true ? "1" : typed[each] || null]),
    );
    setQuery({ ...values, from: null });
    reload();
  };
  const filtered = Boolean(query.filter || query.tags || query.key);
  const cli = cat(isStream ? "stream" : "queue", path[1], name, {
    filter: query.filter, tags: query.tags, key: query.key, count: limit,
  });
  return html`<div class="stack">
    <form class="form inline browse-form" onSubmit=${search}>
      <${Field} label="Filter (SQL)" name="filter" value=${typed.filter} onInput=${set("filter")}
        placeholder="region = 'eu' AND size > 10" spellcheck=${false} autocomplete="off" />
      <${Field} label="Tags" name="tags" value=${typed.tags} onInput=${set("tags")}
        placeholder="A || B" spellcheck=${false} autocomplete="off" />
      <${Field} label="Routing key" name="key" value=${typed.key} onInput=${set("key")}
        spellcheck=${false} autocomplete="off" />
      <${Field} label="At most" name="limit" type="select" options=${LIMITS}
        value=${typed.limit || limit} onInput=${set("limit")} />
      ${!isStream &&
      html`<${Field} label="Unacked, too" name="unacked" type="checkbox"
        value=${typed.unacked} onInput=${set("unacked")} />`}
      <${Button} type="submit" kind="main">Look<//>
    </form>
    ${error && html`<${FilterError} error=${error} text=${query.filter ?? query.tags} />`}
    ${data && !error && html`<${Found} path=${path} data=${data} query=${query}
      filtered=${filtered} />`}
    ${!data && loading && html`<p class="soft">Loading…</p>`}
    <${Same} cli=${cli}
      http=${{ path: [...path, "browse"], query: question }} />
  </div>`;
}

function Found({ path, data, query, filtered }) {
  const { messages, next } = data;
  return html`${messages.length === 0
      ? html`<${Empty} title=${filtered ? "Nothing here matches" : "No messages"}>
          ${next !== null
            ? "The broker has looked for ten seconds; there is more to look through."
            : filtered
              ? "No message that waits here passes the filter."
              : html`Nothing waits here now.
                ${" "}<a href=${href(path, { tab: "publish" })}>Publish a message</a>`}
        <//>`
      : html`<${MessageList} messages=${messages} />`}
    <div class="row">
      <span class="soft" role="status">${counted(messages.length, "message")}</span>
      ${query.from && html`<${Button} onClick=${() => setQuery({ from: null })}>From the start<//>`}
      ${next !== null &&
      html`<${Button} onClick=${() => setQuery({ from: String(next) })}>Next page<//>`}
    </div>`;
}
