/* The list of what needs attention first.

   Must not know how findings are made (`core/attention.js`). Invariant: it asks for a few rows of
   lists that the broker has sorted, however many objects there are. */

import { findings, memoryOf } from "../core/attention.js";
import { useData } from "../core/data.js";
import { html, useEffect, useState } from "../core/html.js";
import { href } from "../core/route.js";
import { useUser } from "../core/session.js";
import { Notice } from "./notice.js";

const EVERY_MS = 15_000;
const ROWS = 20;
const SHOWN = 8;
const LEVELS = { bad: "now", warn: "soon", info: "note" };
const COLUMNS = [
  "name", "vhost", "type", "state", "consumers", "messages_ready", "messages_ready_details",
  "messages_unacknowledged", "message_stats.ack",
].join(",");

function top(sort, columns) {
  return { page: 1, page_size: ROWS, sort, sort_reverse: "true", columns };
}

/** @param {object} props live: the newest sample; node: of /api/nodes, or null; monitors. */
export function Attention({ live, node, monitors }) {
  const every = { every: EVERY_MS };
  const ready = useData(["queues"], top("messages_ready", COLUMNS), every).data;
  const unacked = useData(["queues"], top("messages_unacknowledged", COLUMNS), every).data;
  const readers = useData(["readers"], top("lag_ms"), every).data;
  const dead = useData(["dead-letters"], top("messages"), every).data;
  const blocked = useData(
    ["connections"],
    { page: 1, page_size: ROWS, sort: "state", columns: "name,state" },
    every,
  ).data;
  const memory = memoryOf(useUser()?.name);
  const [found, setFound] = useState(null);
  const [all, setAll] = useState(false);
  const sync = live?.overview?.sync_ms > 50;
  const alarms = (live?.overview?.alarms ?? []).join();
  const lost = (live?.overview?.rates?.drop_unroutable ?? 0) > 0;
  useEffect(() => {
    if (ready) {
      const seen = { live, node, blocked, ready, unacked, readers, dead };
      setFound(findings(seen, memory, Date.now()));
    }
  }, [node, blocked, ready, unacked, readers, dead, sync, lost, alarms]);
  if (found === null) {
    return html`<p class="soft">Looking…</p>`;
  }
  if (found.length === 0) {
    return html`<${Notice} kind="good">${monitors
      ? `Nothing needs attention: no alarm, no blocked publisher, no queue that grows without a
          consumer, no reader far behind, no new dead letters.`
      : `Nothing needs attention in what your user sees. Memory, disk and all connections are
          shown to users with the tag "monitoring".`}<//>`;
  }
  const shown = all ? found : found.slice(0, SHOWN);
  return html`<ul class="attention">
      ${shown.map(
        ({ level, subject, text, next }, at) =>
          html`<li key=${`${subject?.parts.join("/")} ${at}`}>
            <span class=${`state ${level}`}>${LEVELS[level]}</span>
            <span
              >${subject &&
              html`<a class="name" href=${href(subject.parts, subject.query)}
                  >${subject.name}</a>${" "}`}${text}
              ${" "}<span class="attention-next">${next}</span></span
            >
          </li>`,
      )}
    </ul>
    ${found.length > SHOWN &&
    html`<button type="button" class="button" onClick=${() => setAll(!all)}>
      ${all ? "Show the first only" : `Show all ${found.length}`}
    </button>`}`;
}
