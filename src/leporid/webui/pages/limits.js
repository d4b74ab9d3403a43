/* Limits of virtual hosts and users, all that are set, and setting one. */

import { put, remove } from "../core/api.js";
import { count } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { href } from "../core/route.js";
import { reasonNot, useUser } from "../core/session.js";
import { Button } from "../parts/button.js";
import { Empty } from "../parts/empty.js";
import { Field, Form } from "../parts/form.js";
import { KnownName } from "../parts/known_name.js";
import { List } from "../parts/list.js";
import { useOutcome } from "../parts/outcome.js";
import { Page } from "../parts/page.js";

const KINDS = {
  vhost: {
    path: "vhost-limits",
    page: "vhosts",
    title: "Virtual hosts",
    of: "Virtual host",
    limits: ["max-connections", "max-queues"],
  },
  user: {
    path: "user-limits",
    page: "users",
    title: "Users",
    of: "User",
    limits: ["max-connections", "max-channels"],
  },
};

/** The page #/limits. */
export default function Limits() {
  const why = reasonNot(useUser(), "administrator");
  const outcome = useOutcome();
  return html`<${Page} title="Limits" cli="leporid limits list"
    http=${[{ path: ["vhost-limits"] }, { path: ["user-limits"] }]}>
    <p class="soft">Below 0 there is no limit; 0 allows none. What is there already stays.</p>
    ${outcome.shown}
    <div class="columns">
      ${Object.entries(KINDS).map(
        ([kind, about]) => html`<${OneKind} key=${kind} kind=${kind} about=${about} why=${why}
          outcome=${outcome} />`,
      )}
    </div>
  <//>`;
}

function OneKind({ kind, about, why, outcome }) {
  const [version, setVersion] = useState(0);
  const reload = () => setVersion((before) => before + 1);
  const drop = async (of, limit) => {
    await outcome.run(() => remove([about.path, of, limit]), `${limit} of ${of} is dropped.`);
    reload();
  };
  const columns = [
    {
      name: kind,
      title: about.of,
      sort: true,
      cell: (row) => html`<a class="name" href=${href([about.page, row[kind]])}>${row[kind]}</a>`,
    },
    ...about.limits.map((limit) => ({
      name: limit,
      title: limit,
      sort: `value.${limit}`,
      under: true,
      align: "right",
      cell: (row) => html`<${Limit} value=${row.value[limit]} why=${why}
        label=${`Drop ${limit} of ${row[kind]}`} onDrop=${() => drop(row[kind], limit)} />`,
    })),
  ];
  return html`<section class="box stack">
    <h2>${about.title}</h2>
    <${List} path=${[about.path]} columns=${columns} caption=${`Limits of ${about.title}`}
      prefix=${`${kind}-`} search=${`${about.of} by name`} version=${version}
      rowKey=${(row) => row[kind]} empty=${html`<${Empty} title="No limits">Set one below.<//>`} />
    <${SetLimit} about=${about} why=${why} onDone=${(text) => {
      outcome.say(text);
      reload();
    }} />
  </section>`;
}

/** A limit in the list: its value, and a button that drops it. */
function Limit({ value, label, why, onDrop }) {
  if (value === undefined) {
    return html`<span class="soft">–</span>`;
  }
  return html`<span class="nowrap">${value < 0 ? "none" : count(value)}${" "}
    <${Button} kind="quiet" why=${why} label=${label} onClick=${onDrop}>Drop<//></span>`;
}

function SetLimit({ about, why, onDone }) {
  const [given, setGiven] = useState({ of: "", limit: about.limits[0], value: "" });
  const set = (name) => (value) => setGiven((before) => ({ ...before, [name]: value }));
  const save = async () => {
    if (!/^-?\d{1,18}$/.test(given.value.trim())) {
      throw new Error("A limit is a whole number.");
    }
    await put([about.path, given.of, given.limit], { value: Number(given.value) });
    onDone(`${given.limit} of ${given.of} is ${given.value}.`);
    set("value")("");
  };
  return html`<${Form} onSubmit=${save} submit="Set limit" kind="plain" why=${why}>
    <div class="form-row">
      <${KnownName} path=${[about.page]} label=${about.of} name="of" value=${given.of}
        onInput=${set("of")} required />
      <${Field} label="Limit" name="limit" type="select" value=${given.limit}
        options=${about.limits} onInput=${set("limit")} />
      <${Field} label="Value" name="value" value=${given.value} onInput=${set("value")} required
        inputmode="numeric" autocomplete="off" />
    </div>
  <//>`;
}
