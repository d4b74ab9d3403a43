/* Tags of users: what each allows, as labels and as boxes to tick.

   The tags and what they allow are RabbitMQ's. Must not know what a page does with them. */

import { html } from "../core/html.js";
import { Field } from "./form.js";

/** The tags that allow something, the strongest first, with what they allow. */
const TAGS = [
  ["administrator", "everything: users, permissions, virtual hosts, limits, operator policies"],
  ["monitoring", "see all virtual hosts, connections and the node"],
  ["policymaker", "set policies in virtual hosts with permissions"],
  ["management", "see what is in virtual hosts with permissions"],
  ["impersonator", "publish with the user_id of somebody else"],
];
const KNOWN = new Set(TAGS.map(([name]) => name));

/** Return tags as an array, however the broker wrote them. */
export function tagList(tags) {
  return Array.isArray(tags) ? tags : String(tags ?? "").split(",").filter(Boolean);
}

/** @param {object} props tags: an array or RabbitMQ's text. */
export function TagLabels({ tags }) {
  const found = tagList(tags);
  if (found.length === 0) {
    return html`<span class="soft">none</span>`;
  }
  return html`<span class="badges"
    >${found.map((tag) => html`<span class="badge" key=${tag}>${tag}</span> `)}</span>`;
}

/**
 * Boxes for the tags that allow something, and a field for others.
 *
 * @param {object} props tags: an array; onChange gets the new array.
 */
export function TagFields({ tags, onChange }) {
  const others = tags.filter((tag) => !KNOWN.has(tag));
  const set = (name, on) =>
    onChange(on ? [...tags, name] : tags.filter((each) => each !== name));
  return html`<fieldset class="fields">
    <legend>Tags</legend>
    ${TAGS.map(
      ([name, hint]) => html`<${Field} key=${name} type="checkbox" name=${`tag-${name}`}
        label=${name} hint=${hint} value=${tags.includes(name)}
        onInput=${(on) => set(name, on)} />`,
    )}
    <${Field} label="Other tags" name="tags-other" value=${others.join(", ")}
      hint="With commas between them. They allow nothing by themselves."
      onInput=${(text) =>
        onChange([
          ...tags.filter((tag) => KNOWN.has(tag)),
          ...text.split(",").map((each) => each.trim()).filter(Boolean),
        ])} />
  </fieldset>`;
}
