/* The settings of a queue or exchange: what was declared, what policies say, and what counts.

   Which of two counts is what docs/policies.md says of each setting. Must not know how an object is
   fetched. */

import { html } from "../core/html.js";
import { href } from "../core/route.js";
import { bytes, duration } from "../core/format.js";
import { Empty } from "./empty.js";
import { Grid } from "./grid.js";

// The smaller of argument and policy; of a stream, and of `expires` of a quorum queue, the policy.
const SMALLER = new Set([
  "max-length", "max-length-bytes", "message-ttl", "expires", "delivery-limit", "consumer-timeout",
]);
const POLICY = new Set(["max-age", "stream-max-segment-size-bytes"]);
const TIMES = new Set([
  "message-ttl", "expires", "consumer-timeout", "delayed-retry-min", "delayed-retry-max",
]);
const SIZES = new Set(["max-length-bytes", "stream-max-segment-size-bytes"]);
const NONE = undefined;

/** Return whether the policy counts and not the argument, if both say something. */
function policyCounts(setting, type) {
  if (POLICY.has(setting)) {
    return true;
  }
  if (type === "stream") {
    return setting === "max-length-bytes" || setting === "max-length";
  }
  return type === "quorum" && (setting === "expires" || setting === "overflow");
}

/** Return {value, from} of a setting: from is "argument", "policy" or "". */
export function effective(setting, argument, policy, type) {
  if (argument === NONE) {
    return policy === NONE ? { value: NONE, from: "" } : { value: policy, from: "policy" };
  }
  if (policy === NONE) {
    return { value: argument, from: "argument" };
  }
  if (policyCounts(setting, type)) {
    return { value: policy, from: "policy" };
  }
  if (SMALLER.has(setting) && typeof argument === "number" && typeof policy === "number") {
    return policy < argument
      ? { value: policy, from: "policy" }
      : { value: argument, from: "argument" };
  }
  return { value: argument, from: "argument" };
}

/** Return the rows of the table: one for each setting that somebody has set. */
export function settingRows({ type, arguments: given, effective_policy_definition: policy }) {
  const own = plain(given);
  const governed = plain(policy);
  const names = new Set(Object.keys(governed));
  const byName = {};
  for (const [name, value] of Object.entries(own)) {
    const setting = name.replace(/^x-/, "");
    names.add(setting);
    byName[setting] = value;
  }
  return [...names].sort().map((setting) => {
    const argument = byName[setting];
    const policyValue = governed[setting];
    return { setting, argument, policyValue, ...effective(setting, argument, policyValue, type) };
  });
}

function plain(value) {
  return value && !Array.isArray(value) ? value : {};
}

function written(setting, value) {
  if (value === NONE) {
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
        html`<strong>${written(row.setting, row.value)}</strong>${row.argument !== NONE &&
          row.policyValue !== NONE &&
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
