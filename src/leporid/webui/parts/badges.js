/* What is special about a queue or an exchange, in a few short words. */

import { bytes, count, duration } from "../core/format.js";
import { html } from "../core/html.js";
import { href } from "../core/route.js";
import { settingRows } from "../core/settings.js";

const SETTINGS = {
  "message-ttl": (value) => `TTL ${duration(value)}`,
  expires: (value) => `expires ${duration(value)}`,
  "max-length": (value) => `limit ${count(value)}`,
  "max-length-bytes": (value) => `limit ${bytes(value)}`,
  "max-age": (value) => `age ${ageOf(value)}`,
  "max-priority": (value) => `priority ${value}`,
  "dead-letter-exchange": () => "dead letters",
  "single-active-consumer": (value) => value && "single active",
  "delivery-limit": (value) => `deliveries ${count(value)}`,
  "delayed-type": (value) => `routes as ${value}`,
  "alternate-exchange": () => "alternate",
};

const SECONDS = { Y: 31_536_000, M: 2_592_000, D: 86_400, h: 3600, m: 60, s: 1 };

/** "604800s" is "7 d"; what is no such age stays as it is. */
function ageOf(text) {
  const [, number, unit] = /^(\d+)([YMDhms])$/.exec(text) ?? [];
  return unit ? duration(number * SECONDS[unit] * 1000) : text;
}

function Badge({ title, children }) {
  return html`<span class="badge" title=${title}>${children}</span>`;
}

/** @param {object} props object: a queue or exchange as the API lists it. */
export function Badges({ object }) {
  const { durable, exclusive, internal, policy, state } = object;
  return html`<span class="badges">
    ${state === "paused" &&
    html`<span class="state warn" title="It takes messages and gives none.">paused</span>`}
    ${durable === false && html`<${Badge} title="Gone after a restart.">transient<//>`}
    ${object.auto_delete &&
    html`<${Badge} title="Deleted with the last that uses it.">auto-delete<//>`}
    ${exclusive && html`<${Badge} title="Of one connection alone.">exclusive<//>`}
    ${internal && html`<${Badge} title="Clients cannot publish to it.">internal<//>`}
    ${policy &&
    html`<a class="badge" title="The policy that gives it settings"
      href=${href(["policies"], { name: policy })}
      >policy <span class="name">${policy}</span></a>`}
    ${settingRows(object).map(({ setting, value, from }) => {
      // An argument may be called like what every object has.
      const text = Object.hasOwn(SETTINGS, setting) && SETTINGS[setting](value);
      const title = `${setting}: ${value}, by ${from === "policy" ? "policy" : "argument"}`;
      return text && html`<${Badge} key=${setting} title=${title}>${text}<//>`;
    })}
  </span>`;
}
