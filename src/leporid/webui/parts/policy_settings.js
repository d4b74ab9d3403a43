/* The settings of a policy as fields: names that are known, and values as JSON has them.

   Must not check values; the broker does, and says what is wrong. */

import { html } from "../core/html.js";
import { Button } from "./button.js";
import { Field } from "./form.js";

const NUMBER = "number";
const TEXT = "text";

/** Settings that have an effect, with what they take and whether operators may set them. */
export const SETTINGS = [
  ["max-length", NUMBER, true, "messages"],
  ["max-length-bytes", NUMBER, true, "bytes"],
  ["message-ttl", NUMBER, true, "milliseconds until a message expires"],
  ["expires", NUMBER, true, "milliseconds until an unused queue is deleted"],
  ["overflow", ["drop-head", "reject-publish", "reject-publish-dlx"], true, "when it is full"],
  ["delivery-limit", NUMBER, true, "redeliveries until a message is dead-lettered"],
  ["dead-letter-exchange", TEXT, false, "where dead letters go"],
  ["dead-letter-routing-key", TEXT, false, "with which key"],
  ["alternate-exchange", TEXT, false, "of an exchange: what no binding matches"],
  ["max-age", TEXT, false, "of a stream, such as 7D or 12h"],
  ["stream-max-segment-size-bytes", NUMBER, false, "of a stream"],
  ["consumer-timeout", NUMBER, false, "milliseconds until an unacknowledged message times out"],
  ["consumer-timeout-action", TEXT, false, "what then happens"],
  ["delayed-retry-type", ["all", "failed", "returned", "disabled"], true,
    "which returned messages wait before they come again"],
  ["delayed-retry-min", NUMBER, true, "milliseconds"],
  ["delayed-retry-max", NUMBER, true, "milliseconds"],
];

const OF = new Map(SETTINGS.map(([name, takes, , hint]) => [name, { takes, hint }]));

/** Write a value of JSON in one line. */
export function settingText(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Return the rows of fields that a definition is edited as. */
export function rowsOf(definition) {
  return Object.entries(definition).map(([name, value]) => ({ name, text: settingText(value) }));
}

/** Return the definition that rows stand for; rows without a name are left out. */
export function definitionOf(rows) {
  return Object.fromEntries(
    rows.filter((row) => row.name.trim()).map((row) => [row.name.trim(), valueOf(row)]),
  );
}

function valueOf({ name, text }) {
  const takes = OF.get(name.trim())?.takes;
  const given = text.trim();
  if (takes === TEXT || Array.isArray(takes)) {
    return given;
  }
  try {
    return JSON.parse(given);
  } catch {
    return given;
  }
}

/** @param {object} props rows; onChange gets new ones; operator: which names are proposed. */
export function SettingFields({ rows, onChange, operator }) {
  const known = SETTINGS.filter(([, , also]) => also || !operator).map(([name]) => name);
  const used = new Set(rows.map((row) => row.name));
  const set = (at, change) =>
    onChange(rows.map((row, index) => (index === at ? { ...row, ...change } : row)));
  return html`<fieldset class="fields">
    <legend>Settings</legend>
    ${rows.map((row, at) => {
      const { takes, hint } = OF.get(row.name.trim()) ?? {};
      const choices = Array.isArray(takes) ? takes : undefined;
      return html`<div class="setting" key=${at}>
        <${Field} label=${`Setting ${at + 1}`} name=${`setting-${at}`} value=${row.name}
          options=${known.filter((name) => name === row.name || !used.has(name))}
          autocomplete="off" spellcheck=${false} onInput=${(name) => set(at, { name })} />
        <${Field} label=${`Value ${at + 1}`} name=${`value-${at}`} value=${row.text} hint=${hint}
          options=${choices} inputmode=${takes === NUMBER ? "numeric" : undefined}
          autocomplete="off" spellcheck=${false} onInput=${(text) => set(at, { text })} />
        <${Button} kind="quiet" label=${`Remove setting ${row.name || at + 1}`}
          onClick=${() => onChange(rows.filter((_, index) => index !== at))}>Remove<//>
      </div>`;
    })}
    <${Button} onClick=${() => onChange([...rows, { name: "", text: "" }])}>Add setting<//>
  </fieldset>`;
}
