/* The filter bench: a list of tags or an expression, tried on the newest messages of a queue or
   stream, and bound with. Must not know grammars: the broker says what matches, and why. */

import { html, useEffect, useRef, useState } from "../core/html.js";
import { useData } from "../core/data.js";
import { cat, list } from "../core/commands.js";
import { href, setQuery } from "../core/route.js";
import { Page } from "../parts/page.js";
import { Button } from "../parts/button.js";
import { Empty } from "../parts/empty.js";
import { Field } from "../parts/form.js";
import { FilterBind } from "../parts/filter_bind.js";
import { FilterError } from "../parts/filter_error.js";
import { FilterResult } from "../parts/filter_result.js";
import { SourcePicker } from "../parts/source_picker.js";
import { InVhost } from "../parts/in_vhost.js";

const TYPING_MS = 350;
const EXAMPLES = [
  "p.priority > 3", "region IN ('eu', 'us')", "note LIKE 'late%'", "retries IS NULL",
];

export default function Filters({ query }) {
  return html`<${InVhost} title="Filter bench" page=${InFilters} query=${query} />`;
}

function InFilters({ vhost, query }) {
  const kind = query.stream !== undefined ? "stream" : "queue";
  const name = query.stream ?? query.queue ?? "";
  const [filter, setFilter] = useLater("filter", query.filter ?? "");
  const [tags, setTags] = useLater("tags", query.tags ?? "");
  const [binding, setBinding] = useState(false);
  const dialect = query.dialect === "rocketmq" ? "rocketmq" : "jms";
  const last = ["10", "100", "1000"].includes(query.last) ? query.last : "100";
  const test = {
    filter: query.filter || undefined, tags: query.tags || undefined,
    dialect: query.filter && dialect !== "jms" ? dialect : undefined, last,
  };
  const asks = name !== "" && (test.filter !== undefined || test.tags !== undefined);
  const path = [`${kind}s`, vhost, name, "filter-test"];
  const browse = [`${kind}s`, vhost, name, "browse"];
  const tried = useData(asks ? path : null, test);
  const newest = useData(
    name && !asks ? browse : null,
    { limit: 20, truncate: 200, ...(kind === "stream" ? { from: "last" } : {}) },
  );
  const seen = tried.data?.messages ?? newest.data?.messages ?? [];
  // Before a queue or stream is picked, the page shows which there are to choose from.
  const lines = name
    ? { cli: cat(kind, vhost, name, test),
      http: { path: asks ? path : browse, query: asks ? test : { limit: 20 } } }
    : { cli: list("queues", {}, vhost), http: { path: ["queues", vhost] } };
  const add = (word) => setFilter(filter ? `${filter} AND ${word}` : word);
  return html`
    <${Page} title="Filter bench" ...${lines}
      actions=${html`<${Button} kind="main" onClick=${() => setBinding(true)}
        why=${whyNot(test, tried)}>Bind with this…<//>`}>
      <section class="box stack" aria-label="Filter">
        <${SourcePicker} vhost=${vhost} kind=${kind} name=${name}
          onPick=${(next) => setQuery({ queue: null, stream: null, [next.kind]: next.name })} />
        <div class="filter-fields">
          <${Field} label="Expression (SQL)" name="filter" type="textarea" rows="2" value=${filter}
            onInput=${setFilter} spellcheck=${false} placeholder="dep_delay > 60 AND origin = 'JFK'"
            hint=${html`Headers by name, properties as <code>p.priority</code>, and
              ${" "}<code>routing_key</code>, <code>exchange</code>.`} />
          <${Field} label="Tags" name="tags" value=${tags} onInput=${setTags} spellcheck=${false}
            placeholder="late || lost" hint="A message must have one of them." />
          <${Field} label="Dialect" name="dialect" type="select" value=${dialect}
            options=${[{ value: "jms", label: "JMS" }, { value: "rocketmq", label: "RocketMQ" }]}
            onInput=${(value) => setQuery({ dialect: value === "jms" ? null : value })} />
          <${Field} label="Newest messages" name="last" type="select" value=${last}
            options=${["10", "100", "1000"]}
            onInput=${(value) => setQuery({ last: value === "100" ? null : value })} />
        </div>
        <${Words} messages=${seen} onAdd=${add} />
      </section>
      ${tried.error && html`<${FilterError} error=${tried.error}
        text=${tried.error.facts?.parameter === "tags" ? test.tags : test.filter} />`}
      ${asks && tried.data && !tried.error && html`<${FilterResult} result=${tried.data}
        kind=${kind} stale=${tried.loading} onAgain=${tried.reload} />`}
      ${!asks && html`<${Empty} title=${name ? "Write a filter" : "Pick a queue or a stream"}>
        ${name ? html`Each message shows whether it matches, and why. For example
          ${" "}${EXAMPLES.map((one) => html`<button type="button" class="chip" key=${one}
            onClick=${() => setFilter(one)}><code>${one}</code></button> `)}`
          : html`Nothing is taken out of it: the newest messages are looked at where they are.
            ${" "}If there is none yet, declare a <a href=${href(["queues"])}>queue</a>.`}<//>`}
      <${FilterBind} open=${binding} onClose=${() => setBinding(false)} vhost=${vhost}
        queue=${kind === "queue" ? name : ""} test=${{ ...test, dialect }} />
    <//>`;
}

function whyNot(test, tried) {
  if (!test.filter && !test.tags) {
    return "There is no filter yet.";
  }
  return tried.error ? "The filter is not right yet." : "";
}

/** A text that goes to the address when the reader stops typing. */
function useLater(name, value) {
  const [text, setText] = useState(value);
  const timer = useRef(null);
  useEffect(() => setText(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (next) => {
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(
      () => setQuery({ [name]: next.trim() ? next : null }, { replace: true }), TYPING_MS,
    );
  };
  return [text, typed];
}

/** Headers that the messages have, with a value each: a click writes a condition. */
function Words({ messages, onAdd }) {
  const found = new Map();
  for (const message of messages) {
    const { headers } = message.properties ?? {};
    for (const [name, value] of Object.entries(headers ?? {})) {
      if (!found.has(name) && (value === null || typeof value !== "object")) {
        found.set(name, value);
      }
    }
  }
  if (!found.size) {
    return null;
  }
  return html`<div class="row" role="group" aria-label="Headers of these messages">
    <span class="soft">Headers:</span>
    ${[...found].slice(0, 16).map(([name, value]) => html`<button type="button" class="chip"
      key=${name} onClick=${() => onAdd(condition(name, value))}
      title=${`Add a condition, such as ${condition(name, value)}`}><code>${name}</code></button>`)}
  </div>`;
}

function condition(name, value) {
  const word = /^[A-Za-z_$][\w$]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
  if (typeof value === "string") {
    return `${word} = '${value.replaceAll("'", "''")}'`;
  }
  if (typeof value === "number") {
    return `${word} > ${value}`;
  }
  return typeof value === "boolean"
    ? `${word} = ${String(value).toUpperCase()}` : `${word} IS NULL`;
}
