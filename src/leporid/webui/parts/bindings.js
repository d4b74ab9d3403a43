/* The list of bindings into an object or out of it, with unbinding.

   Must not know which object's page it is on. */

import { remove } from "../core/api.js";
import { html, useState } from "../core/html.js";
import { linesOf } from "../core/list_query.js";
import { reasonNotTo } from "../core/rights.js";
import { exchangeSegment, href } from "../core/route.js";
import { useUser } from "../core/session.js";
import { Button } from "./button.js";
import { Confirm } from "./confirm.js";
import { Empty } from "./empty.js";
import { List } from "./list.js";

const EVERY_MS = 10_000;

function End({ vhost, kind, name }) {
  if (kind === "exchange") {
    const segment = exchangeSegment(name);
    return html`<a class="name" href=${href(["exchanges", vhost, segment])}
      >${name || "(default)"}</a>`;
  }
  return html`<a class="name" href=${href(["queues", vhost, name])}>${name}</a>`;
}

/** Arguments of a binding, filters first. */
export function Arguments({ values }) {
  const entries = Object.entries(values ?? {});
  if (entries.length === 0) {
    return html`<span class="soft">–</span>`;
  }
  return entries.map(
    ([name, value]) =>
      html`<div key=${name}
        ><span class="soft">${name}:</span>${" "}<code
          >${typeof value === "string" ? value : JSON.stringify(value)}</code></div
      >`,
  );
}

/**
 * The lines that list what `BindingList` does.
 *
 * @param {{path: string[], prefix?: string}} list
 * @param {object} ends what the bindings have in common: names of fields, and their values.
 */
export function bindingLines(list, ends, query, vhost) {
  const conditions = Object.entries(ends).map(([field, name]) => `${field}=${name}`);
  return linesOf("bindings", list, query, vhost, { conditions });
}

/**
 * @param {object} props
 * @param {string[]} props.path the route of the list.
 * @param {"source"|"destination"} props.shows which end stands in the table: the other is the
 *   object of this page.
 * @param {number} props.version asks again when it changes.
 * @param {function} props.onChange called after a binding was removed.
 * @param {any} [props.empty]
 * @param {string} [props.prefix] as of List.
 */
export function BindingList({
  path, shows, version, onChange, empty, caption = "Bindings", prefix = "",
}) {
  const [leaving, setLeaving] = useState(null);
  const user = useUser();
  const whyNot = (row) =>
    row.source === ""
      ? "Each queue is bound to the default exchange by its name."
      : reasonNotTo(user, "read", row.vhost, row.source) ||
        reasonNotTo(user, "write", row.vhost, row.destination);
  const columns = [
    shows === "source"
      ? {
          name: "source",
          title: "From",
          sort: true,
          cell: (row) => html`<${End} vhost=${row.vhost} kind="exchange" name=${row.source} />`,
        }
      : {
          name: "destination",
          title: "To",
          sort: true,
          cell: (row) =>
            html`<${End} vhost=${row.vhost} kind=${row.destination_type} name=${row.destination} />
              ${row.destination_type === "exchange" && html` <span class="soft">exchange</span>`}`,
        },
    {
      name: "routing_key",
      title: "Routing key",
      sort: true,
      under: true,
      cell: (row) => html`<span class="name">${row.routing_key}</span>`,
    },
    {
      name: "arguments",
      title: "Arguments",
      under: true,
      cell: (row) => html`<${Arguments} values=${row.arguments} />`,
    },
    {
      name: "actions",
      title: "",
      label: "Actions",
      align: "right",
      cell: (row) =>
        html`<${Button} kind="quiet"
          why=${whyNot(row)} onClick=${() => setLeaving(row)}>Unbind<//>`,
    },
  ];
  const key = (row) =>
    [row.source, row.destination_type, row.destination, row.properties_key].join("\n");
  const unbind = async () => {
    const kind = leaving.destination_type === "queue" ? "q" : "e";
    const { vhost, source, destination, properties_key: properties } = leaving;
    await remove(["bindings", vhost, "e", source, kind, destination, properties]);
    onChange?.();
  };
  return html`<${List} path=${path} columns=${columns} rowKey=${key} caption=${caption}
      every=${EVERY_MS} version=${version} prefix=${prefix}
      empty=${empty ?? html`<${Empty} title="No bindings">
        Only messages that are published with its name as routing key to the default exchange come
        here. Bind it below.<//>`} />
    <${Confirm} open=${leaving !== null} title="Remove this binding" danger=${true} yes="Unbind"
      what=${leaving &&
      html`Messages with the routing key
        <span class="name"> ${leaving.routing_key || "(empty)"}</span> no longer
        go from <span class="name">${leaving.source}</span> to
        <span class="name"> ${leaving.destination}</span> by this binding.`}
      onYes=${unbind} onClose=${() => setLeaving(null)} />`;
}
