/* What needs attention first: findings about the broker, in words.

   Must not ask the broker, nor draw: it is given what was seen, now and before. Invariant: a
   finding names what happens, to what, and what to do. */

import { bytes, count, counted, duration, percent, rate } from "./format.js";

const MEMORY_HIGH = 0.85;
// Free disk, as a multiple of what has to be free.
const DISK_LOW = 2;
const SYNC_SLOW_MS = 50;
const LAG_MS = 60_000;
const UNSETTLED_MS = 60_000;
const GROWTH_MS = 60_000;
const WATCH_MS = 300_000;

const ORDER = { bad: 0, warn: 1, info: 2 };

/** What is remembered from one look to the next. */
export function newMemory() {
  return { acks: new Map(), dead: new Map(), growth: new Map() };
}

let kept = { whose: null, memory: newMemory() };

/** The memory of a user in this tab: it outlives the page that looks. */
export function memoryOf(whose) {
  if (kept.whose !== whose) {
    kept = { whose, memory: newMemory() };
  }
  return kept.memory;
}

function finding(level, subject, text, next) {
  return { level, subject, text, next };
}

function queueOf(row, query) {
  const page = row.type === "stream" ? "streams" : "queues";
  return { name: row.name, parts: [page, row.vhost, row.name], query };
}

function ofNode(node, live) {
  if (!node) {
    // Sizes are for users who monitor; that an alarm is on is not.
    const alarms = live?.overview?.alarms ?? [];
    return alarms.map((name) =>
      finding("bad", null, `The ${name} alarm is on. Publishers are blocked.`,
        "Let consumers take messages; administrators see what is short."));
  }
  const found = [];
  const memory = node.mem_limit ? node.mem_used / node.mem_limit : 0;
  const used = `${bytes(node.mem_used)} of ${bytes(node.mem_limit)}`;
  if (node.mem_alarm) {
    found.push(finding("bad", null,
      `The memory alarm is on: ${used} are used. Publishers are blocked.`,
      "Let consumers take messages, or purge what nobody needs."));
  } else if (memory > MEMORY_HIGH) {
    found.push(finding("warn", null,
      `Memory is at ${percent(memory)} of its limit: ${used}. At the limit publishers are blocked.`,
      "Look at the longest queues, and at who does not read."));
  }
  const needed = bytes(node.disk_free_limit);
  const free = `${bytes(node.disk_free)} are free, at least ${needed} are needed`;
  if (node.disk_free_alarm) {
    found.push(finding("bad", null, `The disk alarm is on: ${free}. Publishers are blocked.`,
      "Free disk: consume, purge, or shorten what streams keep."));
  } else if (node.disk_free_limit && node.disk_free < node.disk_free_limit * DISK_LOW) {
    found.push(finding("warn", null, `Disk runs low: ${free}.`,
      "Free disk before publishers are blocked."));
  }
  return found;
}

function ofSync(live) {
  const ms = live?.overview?.sync_ms;
  return typeof ms === "number" && ms > SYNC_SLOW_MS
    ? [finding("warn", null,
        `Syncs to disk take ${duration(ms)}; confirms of persistent messages wait as long.`,
        "See what else writes to this disk.")]
    : [];
}

function ofBlocked(page) {
  const blocked = (page?.items ?? []).filter((each) => each.state === "blocked");
  if (blocked.length === 0) {
    return [];
  }
  const more = blocked.length === page.items.length && page.filtered_count > blocked.length;
  const one = blocked.length === 1 && !more;
  const name = one ? "One publisher" : `${blocked.length}${more ? " or more" : ""} publishers`;
  return [finding("bad", { name, parts: ["connections"], query: { sort: "state" } },
    `${one ? "is" : "are"} blocked: the broker reads nothing of ${one ? "it" : "them"} until the ` +
      "alarm ends.",
    "The alarm says what is short.")];
}

function ofUnread(page) {
  return (page?.items ?? [])
    .filter((row) => row.type !== "stream" && row.consumers === 0 && row.state !== "paused" &&
      (row.messages_ready_details?.rate ?? 0) > 0)
    .map((row) => finding("warn", queueOf(row),
      `grows by ${rate(row.messages_ready_details.rate)} and has no consumer; ${counted(
        row.messages_ready, "message")} wait.`,
      "Start its consumers, or limit its length by a policy."));
}

/** Queues with consumers that became longer at each look for a while. */
function ofOutpaced(page, memory, nowMs) {
  const found = [];
  const before = memory.growth;
  memory.growth = new Map();
  for (const row of page?.items ?? []) {
    if (row.type === "stream" || row.consumers === 0 || row.state === "paused") {
      continue;
    }
    const key = `${row.vhost}\n${row.name}`;
    const ready = row.messages_ready;
    const start = before.get(key);
    if (!start || ready < start.last) {
      memory.growth.set(key, { first: ready, last: ready, sinceMs: nowMs });
      continue;
    }
    memory.growth.set(key, { ...start, last: ready });
    const ms = nowMs - start.sinceMs;
    if (ready > start.first && ms >= GROWTH_MS) {
      found.push(finding("warn", queueOf(row, { tab: "consumers" }),
        `grows faster than its ${counted(row.consumers, "consumer")} can take: ` +
          `${count(ready - start.first)} more ready in ${duration(ms)}, ${count(ready)} in all.`,
        "Add consumers, or see whether their filters leave messages out."));
    }
  }
  return found;
}

function ofPaused(page) {
  return (page?.items ?? [])
    .filter((row) => row.state === "paused" && row.messages_ready > 0)
    .map((row) => finding("info", queueOf(row),
      `is paused; ${counted(row.messages_ready, "message")} wait.`,
      "Resume it when it may go on."));
}

function ofUnsettled(page, memory, nowMs) {
  const found = [];
  const seen = new Set();
  for (const row of page?.items ?? []) {
    if (!row.messages_unacknowledged || row.type === "stream") {
      continue;
    }
    const key = `${row.vhost}\n${row.name}`;
    seen.add(key);
    const acks = row.message_stats?.ack ?? 0;
    const before = memory.acks.get(key);
    if (!before || before.acks !== acks) {
      memory.acks.set(key, { acks, sinceMs: nowMs });
      continue;
    }
    const ms = nowMs - before.sinceMs;
    if (ms >= UNSETTLED_MS) {
      found.push(finding("warn", queueOf(row, { tab: "consumers" }),
        `has ${counted(row.messages_unacknowledged, "unacked message")}, and none was ` +
          `acknowledged for ${duration(ms)} or longer.`,
        "See whether its consumers hang, or take more than they can do."));
    }
  }
  for (const key of memory.acks.keys()) {
    if (!seen.has(key)) {
      memory.acks.delete(key);
    }
  }
  return found;
}

function ofReaders(page) {
  return (page?.items ?? [])
    .filter((row) => row.lag > 0 && row.lag_ms > LAG_MS)
    .map((row) => finding("warn",
      { name: row.stream, parts: ["streams", row.vhost, row.stream] },
      `has a reader that lags: "${row.reader}" is ${counted(row.lag, "message")} behind, ` +
        `and the first of them came ${duration(row.lag_ms)} ago.`,
      "See whether the reader runs; what retention removes it will not see."));
}

function ofDeadLetters(page, memory, nowMs) {
  const found = [];
  for (const row of page?.items ?? []) {
    const key = JSON.stringify([row.vhost, row.queue, row.reason, row.exchange, row.routing_key]);
    const looks = memory.dead.get(key) ?? [];
    looks.push({ messages: row.messages, dropped: row.dropped, ms: nowMs });
    while (looks.length > 1 && nowMs - looks[0].ms > WATCH_MS) {
      looks.shift();
    }
    memory.dead.set(key, looks);
    const more = row.messages - looks[0].messages;
    const dropped = row.dropped - looks[0].dropped;
    const subject = { name: row.queue, parts: ["queues", row.vhost, row.queue] };
    const span = duration(nowMs - looks[0].ms);
    if (dropped > 0) {
      found.push(finding("bad", subject,
        `lost ${counted(dropped, "dead letter")} in ${span}: no queue takes them at exchange ` +
          `"${row.exchange}".`,
        "Bind a queue there."));
    } else if (more > 0) {
      found.push(finding("warn", subject,
        `made ${counted(more, "dead letter")} in ${span} (${row.reason}).`,
        "Look at what they are, on the page of dead letters."));
    }
  }
  return found;
}

function ofUnroutable(live) {
  const dropped = live?.overview?.rates?.drop_unroutable ?? 0;
  return dropped > 0
    ? [finding("warn", null, `${rate(dropped)} messages go nowhere: no binding matches them.`,
        "See which exchange has more in than out.")]
    : [];
}

/**
 * Return what needs attention, the worst first.
 *
 * @param {object} seen live: a sample; node: of /api/nodes; blocked, ready, unacked, readers, dead:
 *   pages of lists. What could not be seen is null.
 * @param {object} memory of `newMemory`, changed by each look.
 * @param {number} nowMs
 * @returns {{level: string, subject: object|null, text: string, next: string}[]}
 */
export function findings(seen, memory, nowMs) {
  const found = [
    ...ofNode(seen.node, seen.live),
    ...ofBlocked(seen.blocked),
    ...ofSync(seen.live),
    ...ofUnroutable(seen.live),
    ...ofUnread(seen.ready),
    ...ofOutpaced(seen.ready, memory, nowMs),
    ...ofUnsettled(seen.unacked, memory, nowMs),
    ...ofReaders(seen.readers),
    ...ofDeadLetters(seen.dead, memory, nowMs),
    ...ofPaused(seen.ready),
  ];
  return found.sort((left, right) => ORDER[left.level] - ORDER[right.level]);
}
