/* Filter classes: the list, and registering one. One class is `filter_class.js`. */

import { count } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { linesOf } from "../core/list_query.js";
import { href } from "../core/route.js";
import { reasonNot, useUser } from "../core/session.js";
import { Button } from "../parts/button.js";
import { Empty } from "../parts/empty.js";
import { ClassState, RegisterClass } from "../parts/filter_class.js";
import { List } from "../parts/list.js";
import { useOutcome } from "../parts/outcome.js";
import { Page } from "../parts/page.js";

const COLUMNS = [
  {
    name: "name",
    title: "Class",
    sort: true,
    cell: (row) => html`<a class="name" href=${href(["filter-classes", row.name])}
      >${row.name}</a>`,
  },
  { name: "version", title: "Version", sort: true, align: "right", wide: true },
  {
    name: "state",
    title: "State",
    sort: true,
    cell: (row) => html`<${ClassState} status=${row} />`,
  },
  number("waiting", "Waiting"),
  number("judged", "Judged"),
  number("passed", "Passed"),
  number("failures", "Failures"),
  {
    name: "used_by",
    title: "Used by",
    align: "right",
    sort: true,
    cell: (row) => count(row.used_by.length),
  },
];

function number(name, title) {
  return { name, title, align: "right", sort: true, cell: (row) => count(row[name]) };
}

const LIST = { path: ["filter-classes"] };

/** The page #/filter-classes. */
export default function FilterClasses({ query }) {
  const user = useUser();
  const why = reasonNot(user, "administrator");
  const [version, setVersion] = useState(0);
  const reload = () => setVersion((before) => before + 1);
  const [adding, setAdding] = useState(false);
  const outcome = useOutcome();
  const add = html`<${Button} kind="main" why=${why} onClick=${() => setAdding(true)}
    >Register class<//>`;
  return html`<${Page} title="Filter classes" actions=${add} 
    ...${linesOf("filter-classes", LIST, query)}>
    <p class="soft">A filter in Python, which bindings and consumers name in the argument${" "}
      <code>x-filter-class</code>. It runs in a process of its own.</p>
    ${outcome.shown}
    <${List} ...${LIST} columns=${COLUMNS} rowKey=${(row) => row.name}
      caption="Filter classes" version=${version}
      empty=${html`<${Empty} title="No filter classes">
        What a filter in SQL cannot say, a class can. ${add}<//>`} />
    <${RegisterClass} open=${adding} onClose=${() => setAdding(false)}
      onDone=${(text) => {
        outcome.say(text);
        reload();
      }} />
  <//>`;
}
