/* A queue or a stream of a virtual host, picked by name; the broker proposes what there is. */

import { html, useEffect, useRef, useState } from "../core/html.js";
import { get } from "../core/api.js";
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
  const [wrong, setWrong] = useState("");
  const asked = useRef("");
  const pick = async (value) => {
    asked.current = value;
    setWrong("");
    try {
      const known = rows.find((row) => row.name === value);
      const found = known ?? await get(["queues", vhost, value], { columns: "name,type" });
      if (asked.current === value) {
        onPick({ name: value, kind: found.type === "stream" ? "stream" : "queue" });
      }
    } catch (error) {
      setWrong(error.status === 404 ? "There is no queue or stream of this name." : error.message);
    }
  };
  const typed = (value) => {
    setText(value);
    setWrong("");
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      if (rows.some((row) => row.name === value)) {
        pick(value);
      }
    }, TYPING_MS);
  };
  return html`<${Field} label=${label} name="source" value=${text} onInput=${typed} error=${wrong}
    options=${rows.map((row) => row.name)} autocomplete="off" spellcheck=${false}
    onChange=${(event) => event.target.value && pick(event.target.value)}
    hint=${name && name === text ? (kind === "stream" ? "a stream" : "a queue")
      : "Begin to type its name."} />`;
}
