/* Taking messages out of a queue, and moving them elsewhere. */

import { post } from "../core/api.js";
import { cat, move as moveLine } from "../core/commands.js";
import { count, counted } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { useReasonNotTo } from "../core/session.js";
import { Field, Form } from "./form.js";
import { MessageList } from "./message_list.js";
import { Notice } from "./notice.js";
import { Same } from "./page.js";

const MODES = [
  { value: "ack_requeue_true", label: "put them back" },
  { value: "ack_requeue_false", label: "remove them from the queue" },
  { value: "reject_requeue_false", label: "reject them: they become dead letters" },
];
const TARGETS = [
  { value: "queue", label: "a queue" },
  { value: "exchange", label: "an exchange" },
];
const TRUNCATE = 50_000;

/** The command that leaves the queue as a mode does; nothing rejects there. */
function lineOf(vhost, name, mode, number) {
  const take = mode === "ack_requeue_false";
  return mode === "reject_requeue_false"
    ? null : cat("queue", vhost, name, { count: number, take });
}

/** Gets messages as a client does. */
export function GetForm({ vhost, name, paused, onDone }) {
  const [mode, setMode] = useState(MODES[0].value);
  const [number, setNumber] = useState("1");
  const [found, setFound] = useState(null);
  const path = ["queues", vhost, name, "get"];
  const body = { count: number, ackmode: mode, encoding: "auto", truncate: TRUNCATE };
  const take = async () => {
    setFound(await post(path, body));
    onDone?.();
  };
  const why = useReasonNotTo("read", vhost, name);
  const removes = mode !== MODES[0].value;
  return html`<div class="stack">
    <p class="soft">
      Messages are delivered and then settled, so those that go back count as delivered before.
      Looking through a queue without touching it is what "Browse" is for.
    </p>
    <${Form} submit=${removes ? "Take them out" : "Get"} kind=${removes ? "danger" : "main"}
      inline=${true} why=${why} onSubmit=${take}>
      <${Field} label="Messages" name="count" type="number" min="1" max="1000" value=${number}
        onInput=${setNumber} />
      <${Field} label="and then" name="ackmode" type="select" options=${MODES} value=${mode}
        onInput=${setMode} />
    <//>
    ${found &&
    (found.length
      ? html`<${MessageList} messages=${found} />`
      : html`<${Notice} kind="info">${paused
          ? "The queue is paused: it gives no messages. Resume it first."
          : "The queue has no message that is ready."}<//>`)}
    <${Same} cli=${lineOf(vhost, name, mode, number)} http=${{ method: "POST", path, body }} />
  </div>`;
}

/** Moves messages to another queue, or to an exchange. */
export function MoveForm({ vhost, name, ready, onDone }) {
  const why = useReasonNotTo("read", vhost, name);
  const [target, setTarget] = useState("queue");
  const [to, setTo] = useState("");
  const [key, setKey] = useState("");
  const [number, setNumber] = useState("");
  const [said, setSaid] = useState(null);
  const path = ["queues", vhost, name, "move"];
  const toQueue = target === "queue";
  const body = {
    to: toQueue ? { queue: to } : { exchange: to, ...(key ? { routing_key: key } : {}) },
  };
  const limits = number ? { limit: number } : undefined;
  const move = async () => {
    setSaid(null);
    setSaid(await post(path, body, limits));
    onDone?.();
  };
  return html`<div class="stack">
    <p class="soft">
      Each message leaves this queue when the broker has it at its new place. What no queue takes
      stays here. Ready now: ${counted(ready, "message")}.
    </p>
    <${Form} submit="Move" onSubmit=${move} why=${why} disabled=${!to && toQueue}>
      <div class="form-row">
        <${Field} label="To" name="target" type="select" value=${target} onInput=${setTarget}
          options=${TARGETS} />
        <${Field} label=${toQueue ? "Queue" : "Exchange"} name="to" value=${to} onInput=${setTo}
          spellcheck=${false} autocomplete="off" />
        ${!toQueue &&
        html`<${Field} label="Routing key" name="key" value=${key} onInput=${setKey}
          hint="Empty: each keeps its own." spellcheck=${false} autocomplete="off" />`}
        <${Field} label="At most" name="count" type="number" min="1" value=${number}
          onInput=${setNumber} hint="Empty: all that are ready now." />
      </div>
    <//>
    ${said &&
    html`<${Notice} kind=${said.moved < said.matched || said.more ? "warn" : "good"}>
      ${counted(said.moved, "message")} moved.${said.moved < said.matched
        ? ` ${count(said.matched - said.moved)} stayed here: no queue takes them there.`
        : ""}${said.more ? " There are more: move again." : ""}
    <//>`}
    ${to && html`<${Same} cli=${moveLine(vhost, name, body.to, limits)}
      http=${{ method: "POST", path, query: limits, body }} />`}
  </div>`;
}
