/* Policies and operator policies: the list. One policy is `policy.js`. */

import { html } from "../core/html.js";
import { linesOf } from "../core/list_query.js";
import { go, href } from "../core/route.js";
import { reasonNot, useUser } from "../core/session.js";
import { useVhost } from "../core/vhost.js";
import { Button } from "../parts/button.js";
import { Empty } from "../parts/empty.js";
import { List } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { Tabs } from "../parts/tabs.js";
import { settingText } from "../parts/policy_settings.js";

const KINDS = [
  { id: "policies", title: "Policies" },
  { id: "operator-policies", title: "Operator policies" },
];

const ABOUT = {
  policies: "A policy gives settings to queues and exchanges by their names. Of those that " +
    "match, the one with the highest priority counts.",
  "operator-policies": "Operator policies are set by administrators only. One of them can count " +
    "beside a policy: of two limits the smaller one.",
};

const APPLIES = ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"];
const FILTERS = [
  {
    name: "apply-to",
    title: "Applies to",
    options: APPLIES.map((value) => ({ value, label: value })),
  },
];

/** The pages #/policies and #/operator-policies; `?operator=1` means the latter, too. */
export default function Policies({ parts, query }) {
  const kind = query.operator === "1" ? KINDS[1].id : parts[0];
  const vhost = useVhost();
  const tag = kind === "policies" ? "policymaker" : "administrator";
  const why = reasonNot(useUser(), tag);
  const path = vhost === null ? [kind] : [kind, vhost];
  const list = { path, filters: FILTERS };
  const add = html`<${Button} kind="main" why=${why} onClick=${() => go([kind, "new"], { vhost })}
    >${kind === "policies" ? "Add policy" : "Add operator policy"}<//>`;
  return html`<${Page} title=${kind === "policies" ? "Policies" : "Operator policies"}
    actions=${add} ...${linesOf(kind, list, query, vhost)}>
    <${Tabs} tabs=${KINDS} current=${kind} label="Kinds of policies" onPick=${(id) => go([id])} />
    <p class="soft">${ABOUT[kind]}</p>
    <${List} ...${list} columns=${columns(kind)} caption=${kind}
      every=${10_000} rowKey=${(row) => JSON.stringify([row.vhost, row.name])}
      empty=${html`<${Empty} title="No policies yet">${add}<//>`} />
  <//>`;
}

function columns(kind) {
  return [
    {
      name: "name",
      title: "Name",
      sort: true,
      cell: (row) => html`<a class="name" href=${href([kind, row.vhost, row.name])}
        >${row.name}</a>`,
    },
    {
      name: "vhost",
      title: "Virtual host",
      sort: true,
      under: true,
      cell: (row) => html`<span class="name">${row.vhost}</span>`,
    },
    {
      name: "pattern",
      title: "Pattern",
      sort: true,
      under: true,
      cell: (row) => (row.pattern ? html`<code>${row.pattern}</code>` : "every name"),
    },
    { name: "apply-to", title: "Applies to", sort: true, wide: true },
    { name: "priority", title: "Priority", sort: true, align: "right", wide: true },
    {
      name: "definition",
      title: "Settings",
      cell: (row) => html`<span class="settings"
        >${Object.entries(row.definition).map(
          ([name, value]) => html`<code key=${name}>${name} = ${settingText(value)}</code> `,
        )}</span>`,
    },
  ];
}
