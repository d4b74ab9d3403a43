/* What a virtual host is for, as fields of a form: description, tags, default type of queues. */

import { html } from "../core/html.js";
import { Field } from "./form.js";

const TYPES = [
  { value: "", label: "none: classic" },
  ...["classic", "quorum", "stream"].map((each) => ({ value: each, label: each })),
];

/** Return what PUT /api/vhosts/NAME takes. */
export function vhostBody({ description, tags, default_queue_type }) {
  return { description, tags, default_queue_type: default_queue_type || "undefined" };
}

/** @param {object} props given: the values; onChange gets a function of them. */
export function VhostFields({ given, onChange }) {
  const set = (name) => (value) => onChange((before) => ({ ...before, [name]: value }));
  return html`<${Field} label="Description" name="description" value=${given.description}
      onInput=${set("description")} />
    <${Field} label="Tags" name="tags" value=${given.tags} onInput=${set("tags")}
      hint="With commas between them; they are for people to read." />
    <${Field} label="Default queue type" name="default_queue_type" type="select" options=${TYPES}
      value=${given.default_queue_type} onInput=${set("default_queue_type")}
      hint="Of durable queues that are declared without x-queue-type." />`;
}
