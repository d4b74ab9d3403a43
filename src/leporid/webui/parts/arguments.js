/* The settings of a queue or exchange: what was declared, what policies say, and what counts.

   Must not know how an object is fetched, nor which of two settings counts. */

import { bytes, duration } from "../core/format.js";
import { html } from "../core/html.js";
import { href } from "../core/route.js";
import { settingRows } from "../core/settings.js";
import { Empty } from "./empty.js";
import { Grid } from "./grid.js";

const TIMES = new Set([
  "message-ttl", "expires", "consumer-timeout", "delayed-retry-min", "delayed-retry-max",
]);
const SIZES = new Set(["max-length-bytes", "stream-max-segment-size-bytes"]);
function written(setting, value) {
  if (value === undefined) {
    return html`<span class="soft">–</span>`;
  }
  const text = typeof value === "string" ? value : JSON.stringify(value);
  let more = "";
  if (typeof value === "number" && TIMES.has(setting)) {
    more = duration(value);
  } else if (typeof value === "number" && SIZES.has(setting)) {
    more = bytes(value);
  }
  return html`<code>${text === "" ? '""' : text}</code>${more &&
    html` <span class="soft">(${more})</span>`}`;
}

/**
 * @param {object} props
 * @param {object} props.object a queue or exchange as the API shows it.
 */
export function ArgumentTable({ object }) {
  const rows = settingRows(object);
  const links = [
    ["Policy", object.policy, {}],
    ["Operator policy", object.operator_policy, { operator: "1" }],
  ].filter(([, name]) => name);
  const columns = [
    { name: "setting", title: "Setting", cell: (row) => html`<code>${row.setting}</code>` },
    {
      name: "argument",
      title: "Declared",
      cell: (row) => written(row.setting, row.argument),
    },
    {
      name: "policyValue",
      title: "By policy",
      cell: (row) => written(row.setting, row.policyValue),
    },
    {
      name: "value",
      title: "In effect",
      cell: (row) =>
        html`<strong>${written(row.setting, row.value)}</strong>${row.argument !== undefined &&
          row.policyValue !== undefined &&
          html` <span class="soft">from the ${row.from}</span>`}`,
    },
  ];
  return html`${links.length > 0 &&
    html`<p class="governed">
      ${links.map(
        ([title, name, query]) =>
          html`<span key=${title}>${title}${": "}
            <a class="name" href=${href(["policies"], { name, ...query })}>${name}</a></span>`,
      )}
    </p>`}
    <${Grid} rows=${rows} columns=${columns} rowKey=${(row) => row.setting} caption="Settings"
      empty=${html`<${Empty} title="No arguments and no policy">
        Limits, times to live and dead-lettering can be set for many queues at once
        ${" "}by a <a href=${href(["policies"])}>policy</a>.
      <//>`} />`;
}
