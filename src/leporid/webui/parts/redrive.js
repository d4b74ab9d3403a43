/* Sending messages of a queue back to where they died, or elsewhere: what would go where first,
   then doing it, in rounds until nothing is left. Must not know how the broker moves them. */

import { html, useEffect, useRef, useState } from "../core/html.js";
import { post } from "../core/api.js";
import { move } from "../core/commands.js";
import { count, counted } from "../core/format.js";
import { Button } from "./button.js";
import { Dialog } from "./dialog.js";
import { Field } from "./form.js";
import { Grid } from "./grid.js";
import { Notice } from "./notice.js";
import { Same } from "./page.js";

const ENDS = [
  { value: "queue", label: "the queue in which each died" },
  { value: "exchange", label: "the exchange that each was published to" },
  { value: "other-queue", label: "another queue" },
  { value: "other-exchange", label: "another exchange" },
];
const STAYS = {
  no_exchange: "the exchange is not there", no_queue: "no queue takes them",
  refused: "a queue refuses them, as it is full, or they may not be published there",
  duplicate: "deduplication would drop the copies", never_died: "they never died",
  other_user: "their user_id is another user's", too_large: "they are too large to move over HTTP",
};
const ROUND = 10_000;
const PREVIEW = 1_000_000;

/** @param {{vhost: string, queue: string, filter?: string, onClose: Function}} props */
export function Redrive({ vhost, queue, filter, onClose }) {
  const [end, setEnd] = useState("queue");
  const [name, setName] = useState("");
  const [key, setKey] = useState("");
  const [preview, setPreview] = useState(null);
  const [done, setDone] = useState(null);
  const [error, setError] = useState(null);
  const path = ["queues", vhost, queue, "move"];
  const to = targetOf(end, name, key);
  const body = { to };
  const question = JSON.stringify([to, filter]);
  const stopped = useRef(false);
  useEffect(() => () => { stopped.current = true; }, []);
  useEffect(() => { setPreview(null); setError(null); }, [question]);
  const ask = async () => {
    setError(null);
    try {
      setPreview(await post(path, body, { dry_run: true, filter, limit: PREVIEW }));
    } catch (refused) {
      setError(refused);
    }
  };
  const send = async () => {
    setError(null);
    let sum = { moved: 0, stayed: {} };
    try {
      // Those that stay are met again in each round: what was counted first bounds them all.
      let left = preview.matched;
      for (;;) {
        const round = await post(path, body, { filter, limit: Math.min(ROUND, Math.max(1, left)) });
        left -= round.moved;
        sum = { moved: sum.moved + round.moved, stayed: round.stayed, more: round.more };
        setDone({ ...sum, going: true });
        if (!round.more || round.moved === 0 || left <= 0 || stopped.current) {
          break;
        }
      }
    } catch (refused) {
      setError(refused);
    }
    setDone({ ...sum, going: false });
  };
  useEffect(() => { if (to && (end === "queue" || end === "exchange")) { ask(); } }, [question]);
  return html`<${Dialog} open wide title="Send messages back" onClose=${onClose}>
    <p>From queue <strong class="name">${queue}</strong>${filter ? html`, those for which
      ${" "}<code>${filter}</code>` : ", all that are ready"}. Each leaves the queue when its copy
      is confirmed in another one.</p>
    <div class="form-row">
      <${Field} label="To" name="to" type="select" value=${end} options=${ENDS} onInput=${setEnd} />
      ${end.startsWith("other") && html`<${Field} name="name" value=${name} onInput=${setName}
        label=${end === "other-queue" ? "Queue" : "Exchange"} required autocomplete="off" />`}
      ${end === "other-exchange" && html`<${Field} label="Routing key" name="key" value=${key}
        onInput=${setKey} hint="Empty: each keeps its own." />`}
    </div>
    ${error && html`<${Notice} kind="bad">${error.message}<//>`}
    ${preview && !done && html`<${Preview} preview=${preview} />`}
    ${done && html`<${Notice} kind=${done.going ? "info" : "good"}>
      ${counted(done.moved, "message")} sent${done.going ? " so far…" : "."}
      <${Stayed} stayed=${done.stayed} /><//>`}
    <div class="form-end">
      <${Button} onClick=${onClose}>${done ? "Close" : "Cancel"}<//>
      ${!done && html`<${Button} onClick=${ask} disabled=${!to}>Preview<//>
        <${Button} kind="main" onClick=${send}
          why=${whyNot(preview)}>
          Send ${preview ? count(sendable(preview)) : ""}<//>`}
    </div>
    ${to && html`<${Same} http=${{ method: "POST", path, query: { filter }, body }}
      cli=${move(vhost, queue, to, { filter })} />`}
  <//>`;
}

function whyNot(preview) {
  if (!preview) {
    return "Look at the preview first.";
  }
  return sendable(preview) ? "" : "Nothing would be sent.";
}

function targetOf(end, name, key) {
  if (end === "queue" || end === "exchange") {
    return { origin: end };
  }
  if (!name) {
    return null;
  }
  return end === "other-queue" ? { queue: name }
    : { exchange: name, ...(key ? { routing_key: key } : {}) };
}

function sendable(preview) {
  return preview.targets.reduce((sum, one) => sum + (one.problem ? 0 : one.messages), 0)
    + preview.other_targets;
}

function Preview({ preview }) {
  const columns = [
    { name: "exchange", title: "Exchange", cell: (row) => html`<span class="name">${row.exchange}
      </span>` },
    { name: "routing_key", title: "Routing key",
      cell: (row) => html`<span class="name">${row.routing_key}</span>` },
    { name: "messages", title: "Messages", align: "right", cell: (row) => count(row.messages) },
    { name: "problem", title: "", label: "Problem", cell: (row) => row.problem && html`
      <span class="state bad">${row.problem}: they stay</span>` },
  ];
  return html`<div class="stack">
    <p role="status">${counted(preview.matched, "message")}${preview.more ? " and more" : ""}
      ${" "}would be looked at; nothing is changed yet.
      <${Stayed} stayed=${preview.stayed} /></p>
    ${preview.targets.length > 0 && html`<${Grid} rows=${preview.targets} columns=${columns}
      caption="Where messages would go" rowKey=${(row) => JSON.stringify([row.exchange,
        row.routing_key])} />`}
    ${preview.other_targets > 0 && html`<p>${counted(preview.other_targets, "message")} more would
      go to other places.</p>`}
  </div>`;
}

function Stayed({ stayed }) {
  return Object.entries(stayed).map(([reason, number]) => html`<span key=${reason}>
    ${" "}${count(number)} stay: ${STAYS[reason] ?? reason}.</span>`);
}
