/* A queue or a stream of a virtual host, picked by name; the broker proposes what there is. */

import { html, useEffect, useRef, useState } from "../core/html.js";
import { useData } from "../core/data.js";
import { Field } from "./form.js";

const PROPOSED = 50;
const TYPING_MS = 250;

/** @param {{vhost: string, kind: string, name: string, label?: string, onPick: Function}} props */
export function SourcePicker({ vhost, kind, name, label = "Queue or stream", onPick }) {
  const [text, setText] = useState(name);
  const timer = useRef(null);
  useEffect(() => setText(name), [name]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const { data } = useData(["queues", vhost], {
    page: 1, page_size: PROPOSED, name: text || undefined, columns: "name,type",
  });
  const rows = data?.items ?? [];
  const pick = (value) => {
    const found = rows.find((row) => row.name === value);
    onPick({ name: value, kind: (found?.type ?? kind) === "stream" ? "stream" : "queue" });
  };
  const typed = (value) => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      if (rows.some((row) => row.name === value)) {
        pick(value);
      }
    }, TYPING_MS);
  };
  return html`<${Field} label=${label} name="source" value=${text} onInput=${typed}
    options=${rows.map((row) => row.name)} autocomplete="off" spellcheck=${false}
    onChange=${(event) => event.target.value && pick(event.target.value)}
    hint=${name ? (kind === "stream" ? "a stream" : "a queue") : "Begin to type its name."} />`;
}
