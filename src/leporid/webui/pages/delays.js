/* Delayed messages: when they are due, on a timeline; the next ones as a list; looking at one, and
   cancelling. Must not know how time is drawn: that is delay_timeline. */

import { brokerNow } from "../core/clock.js";
import { html, useEffect, useState } from "../core/html.js";
import { get } from "../core/api.js";
import { list } from "../core/commands.js";
import { useData } from "../core/data.js";
import { count } from "../core/format.js";
import { setQuery } from "../core/route.js";
import { useVisible } from "../core/visible.js";
import { Page } from "../parts/page.js";
import { Empty } from "../parts/empty.js";
import { Notice } from "../parts/notice.js";
import { DelayList } from "../parts/delay_list.js";
import { DelayTimeline } from "../parts/delay_timeline.js";
import { edgesOf, WHOLE } from "../parts/delay_scale.js";
import { InVhost } from "../parts/in_vhost.js";

const EVERY_MS = 2000;
const BINS = 72;
const LANES_MAX = 12;

export default function Delays({ query }) {
  return html`<${InVhost} title="Delays" page=${InDelays} query=${query} />`;
}

function InDelays({ vhost, query }) {
  const range = rangeOf(query);
  const { data, error } = useData(["delays", vhost], {}, { every: EVERY_MS });
  const all = [...(data?.exchanges ?? [])].sort((a, b) => b.waiting - a.waiting);
  const waiting = all.filter((one) => one.waiting > 0);
  const shown = waiting.slice(0, LANES_MAX);
  const lanes = useTimelines(vhost, shown.map((one) => one.exchange), range);
  const [picked, setPicked] = useState(null);
  const exchange = picked?.lane ?? query.exchange ?? shown[0]?.exchange;
  const sum = (name) => all.reduce((total, one) => total + one[name], 0);
  const http = [{ method: "GET", path: ["delays", vhost] }];
  if (exchange) {
    http.push({ method: "GET", path: ["delays", vhost, exchange] });
  }
  const cli = [[], exchange && [exchange]].filter(Boolean)
    .map((names) => list("delays", {}, vhost, { names }));
  return html`
    <${Page} title="Delays" http=${http}
      cli=${cli}
      head=${html`Delays <span class="crumb">in <span class="name">${vhost}</span></span>`}>
      ${error && html`<${Notice} kind="bad">${error.message}<//>`}
      ${data && !waiting.length && html`<${Empty} title="Nothing waits">
        Publish with the header <code>x-deliver-at</code> to any exchange, or with
        ${" "}<code>x-delay</code>
        ${" "}to an exchange of type <code>x-delayed-message</code>.
        ${sum("fired") > 0 &&
          ` ${count(sum("fired"))} came when they were due since the start.`}<//>`}
      ${waiting.length > 0 && html`
        <div class="figures">
          ${[["Waiting", "waiting"], ["Fired since the start", "fired"], ["Cancelled", "cancelled"],
            ["Came to no queue", "unroutable"]].map(([title, name]) => html`
            <div class="figure" key=${name}><span class="figure-name">${title}</span>
              <span class="figure-value">${count(sum(name))}</span></div>`)}
        </div>
        <${DelayTimeline} lanes=${withWaiting(lanes, shown)} range=${range} picked=${picked}
          onPick=${(bin) => setPicked(same(bin, picked) ? null : bin)}
          onRange=${([low, high]) => setQuery({
            from: low === WHOLE[0] ? null : low.toFixed(3),
            to: high === WHOLE[1] ? null : high.toFixed(3),
          }, { replace: true })} />
        ${waiting.length > LANES_MAX && html`<p class="soft">
          ${count(waiting.length - LANES_MAX)} more exchanges are in the list below.</p>`}
        <${DelayList} vhost=${vhost} exchange=${exchange} stretch=${picked}
          exchanges=${waiting.map((one) => one.exchange)}
          onExchange=${(name) => { setPicked(null); setQuery({ exchange: name }); }}
          onWhole=${() => setPicked(null)} />`}
    <//>`;
}

function same(one, other) {
  return one.lane === other?.lane && one.from < other?.to && one.to > other?.from;
}

/** The stretch of time in the address: powers of ten of milliseconds. */
function rangeOf(query) {
  const low = query.from ? Number(query.from) : WHOLE[0];
  const high = query.to ? Number(query.to) : WHOLE[1];
  return low >= WHOLE[0] && high <= WHOLE[1] && low < high ? [low, high] : WHOLE;
}

function withWaiting(lanes, shown) {
  return shown.map((one) => {
    const lane = lanes.find((each) => each.name === one.exchange);
    return { name: one.exchange, waiting: one.waiting, edges: lane?.edges ?? [],
      counts: lane?.counts ?? [] };
  });
}

/** Counts of each exchange between edges that move with the time. */
function useTimelines(vhost, exchanges, range) {
  const visible = useVisible();
  const [lanes, setLanes] = useState([]);
  const question = JSON.stringify([vhost, exchanges, range]);
  useEffect(() => {
    if (!visible) {
      return undefined;
    }
    const control = new AbortController();
    let timer = null;
    const ask = async () => {
      const edges = edgesOf(range, BINS);
      const now = brokerNow();
      const query = { edges: edges.map((edge) => now + edge).join(",") };
      const found = await Promise.all(exchanges.map(async (name) => {
        try {
          const path = ["delays", vhost, name, "timeline"];
          const { counts } = await get(path, query, { signal: control.signal });
          return { name, edges, counts };
        } catch {
          return null;
        }
      }));
      if (!control.signal.aborted) {
        setLanes(found.filter(Boolean));
        timer = setTimeout(ask, EVERY_MS);
      }
    };
    ask();
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, [question, visible]);
  return lanes;
}
