/* Who reads a stream and how far behind each is: named readers, groups with their members, lag over
   time; putting a reader elsewhere, and forgetting one. Must not know the page. */

import { html, useEffect, useState } from "../core/html.js";
import { put, remove } from "../core/api.js";
import { brokerNow } from "../core/clock.js";
import { useData } from "../core/data.js";
import { age, count, counted, duration } from "../core/format.js";
import { linesOf } from "../core/list_query.js";
import { setQuery } from "../core/route.js";
import { reasonNotTo } from "../core/rights.js";
import { useUser } from "../core/session.js";
import { Button } from "./button.js";
import { Confirm } from "./confirm.js";
import { Empty } from "./empty.js";
import { Field } from "./form.js";
import { Grid } from "./grid.js";
import { LagChart } from "./lag_chart.js";
import { List } from "./list.js";
import { Notice } from "./notice.js";

const EVERY_MS = 2000;

/** @param {{vhost: string, name: string, info: object, partition: number, query: object}} props */
export function StreamReaders({ vhost, name, info, partition, query }) {
  const path = ["streams", vhost, name];
  const [version, setVersion] = useState(0);
  const [asked, setAsked] = useState(null);
  const user = useUser();
  const done = () => { setAsked(null); setVersion((before) => before + 1); };
  const mayNot = (reader) => (isOf(user, reader) ? ""
    : reasonNotTo(user, "configure", vhost, name));
  return html`
    <div class="stack">
      <${LagChart} vhost=${vhost} queue=${info.partitions[partition].queue}
        title=${info.partitions.length > 1 ? `Lag in messages, partition ${partition}`
          : "Lag in messages"} />
      <${Readers} list=${listOf(vhost, name)} info=${info} onAsk=${setAsked} mayNot=${mayNot}
        version=${version} />
      <${Groups} list=${groupsOf(vhost, name)} opened=${query.group} />
      ${query.group && html`<${Group} key=${query.group} vhost=${vhost} stream=${name}
        name=${query.group} />`}
      <${Move} path=${path} asked=${asked?.move} onClose=${done} />
      <${Forget} path=${path} asked=${asked?.forget} onClose=${done} />
    </div>`;
}

/** Whether a reader is the user's own: it has the user's name, or one that goes on after a dot. */
function isOf(user, reader) {
  return reader === user?.name || reader.startsWith(`${user?.name}.`);
}

function listOf(vhost, name) {
  return {
    path: ["readers", vhost], query: { where: [`stream=${name}`] }, prefix: "readers-",
    sorted: "lag", reverse: true,
  };
}

function groupsOf(vhost, name) {
  return {
    path: ["groups", vhost], query: { where: [`stream=${name}`] }, prefix: "groups-",
    sorted: "group",
  };
}

/** The lines that list what is shown of readers and groups. */
export function readerLines(vhost, name, query) {
  const own = { names: [name] };
  const readers = linesOf("readers", { ...listOf(vhost, name), query: {} }, query, vhost, own);
  const groups = linesOf("groups", { ...groupsOf(vhost, name), query: {} }, query, vhost, own);
  const calls = [listOf, groupsOf].map((each) => linesOf("", each(vhost, name), query).http);
  return { cli: [readers.cli, groups.cli], http: calls };
}

function Readers({ list: listed, info, onAsk, mayNot, version }) {
  const columns = [
    { name: "reader", title: "Reader", sort: true,
      cell: (row) => html`<span class="name">${row.reader}</span>` },
    { name: "partition", title: "Partition", sort: true, align: "right" },
    { name: "offset", title: "Read up to", sort: true, align: "right", wide: true,
      cell: (row) => count(row.offset) },
    { name: "lag", title: "Lag", sort: true, align: "right", cell: (row) => html`<span class=${
      row.lag ? "" : "soft"}>${count(row.lag)}</span>` },
    { name: "lag_ms", title: "Oldest waits", sort: true, align: "right", wide: true,
      cell: (row) => (row.lag_ms === null ? "–" : duration(row.lag_ms)) },
    { name: "skipped_messages", title: "Missed", sort: true, align: "right", wide: true,
      cell: (row) => html`<span class=${row.skipped_messages ? "state warn" : "soft"}>${
        count(row.skipped_messages)}</span>` },
    { name: "act", title: "", label: "Actions", cell: (row) => html`
      <span class="row">
        <${Button} onClick=${() => onAsk({ move: placed(row) })} why=${mayNot(row.reader)}
          label=${`Move reader ${row.reader}`}>Move…<//>
        <${Button} kind="danger" onClick=${() => onAsk({ forget: row })} why=${mayNot(row.reader)}
          label=${`Forget reader ${row.reader}`}>Forget…<//>
      </span>` },
  ];
  const placed = (row) => ({ ...row, first: info.partitions[row.partition]?.first ?? 0 });
  const shown = info.partitions.length > 1
    ? columns : columns.filter((each) => each.name !== "partition");
  return html`<section class="stack">
    <h2>Named readers</h2>
    <${List} ...${listed} columns=${shown} caption="Named readers" every=${EVERY_MS}
      version=${version} rowKey=${(row) => JSON.stringify([row.reader, row.partition])}
      empty=${html`<${Empty} title="No named readers">
        A consumer with the argument <code>x-reader</code> stores here how far it has read.<//>`} />
  </section>`;
}

function Groups({ list: listed, opened }) {
  const columns = [
    { name: "group", title: "Group", sort: true,
      cell: (row) => html`<span class="name">${row.group}</span>` },
    { name: "members", title: "Members", sort: true, align: "right" },
    { name: "partitions", title: "Partitions", sort: true, align: "right" },
    { name: "retrying", title: "Retrying", sort: true, align: "right", wide: true,
      cell: (row) => count(row.retrying) },
    { name: "used_ms", title: "Last used", sort: true, align: "right", wide: true,
      cell: (row) => (row.used_ms ? age(brokerNow() - row.used_ms) : "–") },
    { name: "act", title: "", label: "Actions", cell: (row) => html`<${Button}
      aria-pressed=${row.group === opened ? "true" : "false"} label=${`Look at group ${row.group}`}
      onClick=${() => setQuery({ group: row.group === opened ? null : row.group })}>Look<//>` },
  ];
  return html`<section class="stack">
    <h2>Groups</h2>
    <${List} ...${listed} columns=${columns} caption="Groups" rowKey=${(row) => row.group}
      empty=${html`<${Empty} title="No groups">
        Consumers with the same argument <code>x-group</code> share the partitions.<//>`} />
  </section>`;
}

/** Who is in a group, and how far each of its partitions is. */
function Group({ vhost, stream, name }) {
  const { data: group, error } = useData(["groups", vhost, stream, name], {}, { every: EVERY_MS });
  if (error && error.status !== 404) {
    return html`<${Notice} kind="bad">${error.message}<//>`;
  }
  if (!group) {
    return error && html`<p class="soft">There is no group <span class="name">${name}</span>.</p>`;
  }
  return html`<section class="box stack">
    <h3><span class="name">${group.group}</span> · ${counted(group.members.length, "member")},
      ${" "}${counted(group.lag, "message")} behind</h3>
    ${group.retries && html`<p class="soft">Retries: ${count(group.retries.waiting)} wait,
      ${" "}${count(group.retries.retried)} retried,
      ${" "}${count(group.retries.dead_lettered)} dead-lettered</p>`}
    <${Grid} rows=${group.partitions} caption=${`Partitions of group ${group.group}`}
      rowKey=${(row) => row.partition} columns=${[
        { name: "partition", title: "Partition", align: "right" },
        { name: "committed", title: "Committed", align: "right",
          cell: (row) => (row.committed === null ? "–" : count(row.committed)) },
        { name: "lag", title: "Lag", align: "right", cell: (row) => count(row.lag) },
        { name: "member", title: "Member", value: (row) => memberOf(group, row)?.consumer_tag,
          cell: (row) => memberText(memberOf(group, row)) },
      ]} />
  </section>`;
}

function memberOf(group, row) {
  return group.members.find((each) => each.partitions.includes(row.partition));
}

function memberText(member) {
  if (!member) {
    return html`<span class="soft">nobody</span>`;
  }
  return html`<span class="name">${member.consumer_tag}</span>
    <span class="soft"> ${member.user}, ${member.connection}</span>`;
}

function Move({ path, asked, onClose }) {
  const [to, setTo] = useState("");
  useEffect(() => setTo(asked ? String(asked.offset) : ""), [asked]);
  if (!asked) {
    return null;
  }
  const move = () => {
    if (!/^\d+$/.test(to)) {
      throw new Error("The offset is a whole number: that of the last message that was read.");
    }
    return put([...path, "readers", asked.reader], { offset: Number(to) },
      { partition: asked.partition });
  };
  const ends = [["the first message", Math.max(0, asked.first - 1)], ["the end", asked.end - 1]];
  return html`<${Confirm} open title=${`Move reader ${asked.reader}`} yes="Move" onYes=${move}
    onClose=${onClose} what=${`It has read up to offset ${asked.offset}; ` +
      `it goes on after the offset that is stored here.`}>
    <${Field} label="Last offset that counts as read" name="offset" value=${to} onInput=${setTo}
      inputmode="numeric" />
    <div class="row">${ends.map(([title, offset]) => html`<${Button} key=${title}
      onClick=${() => setTo(String(Math.max(0, offset)))}>To ${title}<//>`)}</div>
  <//>`;
}

function Forget({ path, asked, onClose }) {
  if (!asked) {
    return null;
  }
  const forget = () =>
    remove([...path, "readers", asked.reader], undefined, { partition: asked.partition });
  return html`<${Confirm} open danger title=${`Forget reader ${asked.reader}`} yes="Forget"
    typed=${asked.reader} onYes=${forget} onClose=${onClose}
    what=${`Its stored offset, ${count(asked.offset)}, will be gone. No message is deleted.`} />`;
}
