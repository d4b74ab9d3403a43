/* What a stream keeps: each partition as a strip from its first to its last offset, with where its
   readers stand, and how far size and age are from their limits. Must not know the page. */

import { brokerNow } from "../core/clock.js";
import { html, useMemo } from "../core/html.js";
import { useData } from "../core/data.js";
import { setQuery } from "../core/route.js";
import { age, bytes, count, duration, moment } from "../core/format.js";

const EVERY_MS = 3000;
const UNITS = { Y: 31536e6, M: 2592e6, D: 864e5, h: 36e5, m: 6e4, s: 1000 };
const SHOWN_READERS = 6;

/** Milliseconds of a max-age such as "7D"; null if it is none. */
export function ageOf(text) {
  const found = /^(\d+)([YMDhms])$/.exec(text ?? "");
  return found ? Number(found[1]) * UNITS[found[2]] : null;
}

/** @param {{vhost: string, name: string, info: object, partition: number}} props */
export function StreamKept({ vhost, name, info, partition }) {
  const readers = useData(["streams", vhost, name, "readers"], {}, { every: EVERY_MS });
  const queue = info.partitions[partition].queue;
  const declared = useData(
    ["queues", vhost, queue],
    { columns: "arguments,effective_policy_definition" },
  );
  const limits = useMemo(() => limitsOf(declared.data), [declared.data]);
  const byPartition = useMemo(() => {
    const found = info.partitions.map(() => []);
    for (const one of readers.data?.readers ?? []) found[one.partition]?.push(one);
    return found;
  }, [readers.data, info.partitions.length]);
  const many = info.partitions.length > 1;
  return html`
    <section class="stream-kept" aria-label="What is kept">
      ${info.partitions.map((one) => html`<${Strip} key=${one.partition} of=${one} many=${many}
        readers=${byPartition[one.partition]} picked=${one.partition === partition} />`)}
      <${Limits} of=${info.partitions[partition]} limits=${limits} many=${many} />
    </section>`;
}

function limitsOf(queue) {
  const policy = queue?.effective_policy_definition ?? {};
  const args = queue?.arguments ?? {};
  return {
    age: args["x-max-age"] ?? policy["max-age"] ?? null,
    bytes: args["x-max-length-bytes"] ?? policy["max-length-bytes"] ?? null,
  };
}

function Strip({ of, readers, many, picked }) {
  const span = Math.max(1, of.end - of.first);
  const sorted = [...readers].sort((a, b) => b.offset - a.offset);
  const summary = `Partition ${of.partition}: offsets ${of.first} to ${of.end}, ` +
    `${readers.length} readers`;
  return html`
    <div class=${`strip${picked && many ? " is-picked" : ""}`}>
      ${many && html`<button class="strip-name" aria-pressed=${picked}
        onClick=${() => setQuery({ partition: of.partition || null })}>${of.partition}</button>`}
      <div class="strip-body">
        <svg class="strip-line" role="img" aria-label=${summary} viewBox="0 0 1000 26"
          preserveAspectRatio="none">
          <rect class="strip-kept" x="0" y="8" width="1000" height="10" rx="3" />
          ${sorted.map((one) => {
            const x = Math.max(0, Math.min(1000, ((one.offset + 1 - of.first) / span) * 1000));
            return html`<g key=${one.reader}>
              <rect class="strip-lag" x=${x} y="8" width=${1000 - x} height="10" />
              <rect class="strip-reader" x=${Math.min(997, x)} y="3" width="3" height="20" />
            </g>`;
          })}
        </svg>
        <div class="strip-ends">
          <span>${count(of.first)}
            <span class="soft"> ${of.first_timestamp_ms ? moment(of.first_timestamp_ms) : ""}</span>
          </span>
          <span class="strip-readers">
            ${sorted.slice(0, SHOWN_READERS).map((one) => html`<span key=${one.reader}
              class="strip-tag">${one.reader} <b>${lagText(of, one)}</b></span>`)}
            ${sorted.length > SHOWN_READERS && html`<span class="soft">
              ${sorted.length - SHOWN_READERS} more readers</span>`}
          </span>
          <span>${count(of.end)}
            <span class="soft"> ${of.last_timestamp_ms
              ? age(brokerNow() - of.last_timestamp_ms) : "empty"}</span>
          </span>
        </div>
      </div>
    </div>`;
}

function lagText(of, reader) {
  const lag = Math.max(0, of.end - Math.max(of.first, reader.offset + 1));
  return lag ? `${count(lag)} behind` : "at the end";
}

function Limits({ of, limits, many }) {
  const most = ageOf(limits.age);
  const old = of.first_timestamp_ms ? brokerNow() - of.first_timestamp_ms : 0;
  const what = many ? `partition ${of.partition}` : "it";
  return html`
    <div class="stream-limits">
      <${Gauge} title="Size" value=${of.bytes} most=${limits.bytes} show=${bytes}
        none="no limit of size" />
      <${Gauge} title="Age of the oldest" value=${old} most=${most} show=${duration}
        none="no limit of age" />
      <p class="soft">${limits.age || limits.bytes
        ? `Retention drops whole segments of ${what}, the oldest first.`
        : "Nothing is dropped: neither a size nor an age is limited."}</p>
    </div>`;
}

function Gauge({ title, value, most, show, none }) {
  const part = most ? Math.min(1, value / most) : 0;
  return html`
    <div class="gauge">
      <span>${title}</span>
      <svg class="gauge-line" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
        <rect class="gauge-all" width="100" height="6" rx="1" />
        ${most && html`<rect class="gauge-part" width=${part * 100} height="6" rx="1" />`}
      </svg>
      <span>${show(value)} <span class="soft">${most ? `of ${show(most)}` : none}</span></span>
    </div>`;
}
