/* Messages that wait, on a line of time from milliseconds to years: one lane an exchange, a bar for
   each stretch of time. Must not know who waits: counts come in, a picked stretch goes out. */

import { brokerNow } from "../core/clock.js";
import { html, useEffect, useRef, useState } from "../core/html.js";
import { count, duration, short } from "../core/format.js";
import { Button } from "./button.js";
import { moved, ticksIn, WHOLE, zoomed } from "./delay_scale.js";

const LANE = 64;
const TOP = 8;
const AXIS = 28;
const PRESETS = [
  ["All", WHOLE], ["Next minute", [2, Math.log10(6e4)]], ["Next hour", [3, Math.log10(36e5)]],
  ["Next day", [4, Math.log10(864e5)]], ["Next month", [5, Math.log10(30 * 864e5)]],
];

/**
 * @param {{lanes: {name: string, waiting: number, edges: number[], counts: number[]}[],
 *   range: number[], onRange: Function, picked: object|null, onPick: Function}} props
 *   `edges`: waits in milliseconds; `counts` has one more; `picked`: {lane, from, to}, both
 *   Unix times in milliseconds.
 */
export function DelayTimeline({ lanes, range, onRange, picked, onPick }) {
  const frame = useRef(null);
  const width = useWidth(frame);
  const height = TOP + lanes.length * LANE + AXIS;
  const [low, high] = range;
  const x = (place) => ((place - low) / (high - low)) * width;
  useWheel(frame, range, onRange);
  const same = (preset) => preset[0] === low && preset[1] === high;
  return html`
    <div class="timeline box">
      <div class="row">
        ${PRESETS.map(([title, preset]) => html`<${Button} key=${title} kind="quiet"
          aria-pressed=${same(preset) ? "true" : "false"}
          onClick=${() => onRange(preset)}>${title}<//>`)}
        <span class="row timeline-zoom" role="group" aria-label="Zoom">
          <${Button} label="Earlier" onClick=${() => onRange(moved(range, -0.4))}>‹<//>
          <${Button} label="Later" onClick=${() => onRange(moved(range, 0.4))}>›<//>
          <${Button} label="Zoom in" onClick=${() => onRange(zoomed(range, 0.6))}>+<//>
          <${Button} label="Zoom out" onClick=${() => onRange(zoomed(range, 1.7))}>−<//>
        </span>
      </div>
      <svg ref=${frame} class="timeline-svg" height=${height} role="group"
        aria-label="Timeline of delayed messages. Each bar is a stretch of time.">
        <${Axis} range=${range} x=${x} width=${width} height=${height - AXIS} />
        ${lanes.map((lane, at) => html`<${Lane} key=${lane.name} lane=${lane} x=${x}
          width=${width} y=${TOP + at * LANE} picked=${picked} onPick=${onPick} />`)}
      </svg>
      <${Outside} lanes=${lanes} range=${range} />
    </div>`;
}

function useWidth(frame) {
  const [width, setWidth] = useState(800);
  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(frame.current?.clientWidth || 800));
    watch.observe(frame.current);
    return () => watch.disconnect();
  }, []);
  return width;
}

/** Zoom by the wheel with a modifier key, and while the timeline has the focus without one. */
function useWheel(frame, range, onRange) {
  const now = useRef(range);
  now.current = range;
  useEffect(() => {
    const element = frame.current;
    const wheel = (event) => {
      if (!event.ctrlKey && !event.metaKey && !element.contains(document.activeElement)) {
        return;
      }
      event.preventDefault();
      const { left, width } = element.getBoundingClientRect();
      const [low, high] = now.current;
      const at = low + ((event.clientX - left) / width) * (high - low);
      onRange(zoomed(now.current, Math.exp(event.deltaY * 0.0015), at));
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, []);
}

function Axis({ range, x, width, height }) {
  return html`<g class="timeline-axis" aria-hidden="true">
    <line x1="0" x2=${width} y1=${height} y2=${height} />
    ${ticksIn(range, Math.max(4, Math.floor(width / 64))).map(({ at, ms, label }) => html`
      <g key=${ms} transform=${`translate(${x(at)},0)`}>
        <line class="timeline-grid" y1="0" y2=${height} />
        <text y=${height + 18} text-anchor=${anchor(x(at), width)}>${
          label === null ? duration(ms) : label ?? ""}</text>
      </g>`)}
  </g>`;
}

function anchor(at, width) {
  return at < 24 ? "start" : at > width - 24 ? "end" : "middle";
}

function Lane({ lane, x, width, y, picked, onPick }) {
  const bins = binsOf(lane);
  const most = Math.max(1, ...bins.map((bin) => bin.count));
  const now = brokerNow();
  const isPicked = (bin) => picked?.lane === lane.name && picked.from < now + bin.to &&
    picked.to > now + bin.from;
  const pick = (bin) => onPick({ lane: lane.name, from: now + bin.from, to: now + bin.to });
  const [at, setAt] = useState(0);
  const full = bins.filter((bin) => bin.count > 0);
  const current = Math.min(at, Math.max(0, full.length - 1));
  const key = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && full[current + step]) {
      event.preventDefault();
      setAt(current + step);
      event.currentTarget.parentNode.querySelectorAll(".timeline-bin")[current + step].focus();
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      pick(full[current]);
    }
  };
  return html`<g transform=${`translate(0,${y})`}>
    ${full.map((bin, index) => {
      const left = Math.max(0, x(bin.low));
      const wide = Math.max(2, Math.min(width, x(bin.high)) - left - 1);
      // The square root: one message is seen beside a thousand.
      const high = Math.max(3, Math.sqrt(bin.count / most) * (LANE - 26));
      const text = `${lane.name}: ${count(bin.count)} due in ${duration(bin.from)} to ` +
        duration(bin.to);
      return html`<g key=${bin.from} class=${`timeline-bin${isPicked(bin) ? " is-picked" : ""}`}
        role="button" tabindex=${index === current ? 0 : -1} aria-label=${text}
        aria-pressed=${isPicked(bin) ? "true" : "false"} onKeyDown=${key}
        onFocus=${() => setAt(index)} onClick=${() => pick(bin)}>
        <title>${text}</title>
        <rect class="timeline-hit" x=${left} y="16" width=${wide} height=${LANE - 20} />
        <rect class="timeline-bar" x=${left} y=${LANE - 4 - high} width=${wide} height=${high}
          rx="1.5" />
        ${wide > 22 && html`<text x=${left + wide / 2} y=${LANE - 8 - high}
          text-anchor="middle">${short(bin.count)}</text>`}
      </g>`;
    })}
    <text class="timeline-name" x="4" y="12">${lane.name}
      <tspan class="soft-text" dx="8">${count(lane.waiting)} waiting</tspan></text>
  </g>`;
}

function binsOf(lane) {
  return lane.edges.slice(0, -1).map((from, at) => ({
    from, to: lane.edges[at + 1], count: lane.counts[at + 1],
    low: Math.log10(from), high: Math.log10(lane.edges[at + 1]),
  }));
}

function Outside({ lanes, range }) {
  const before = lanes.reduce((sum, lane) => sum + (lane.counts[0] ?? 0), 0);
  const after = lanes.reduce((sum, lane) => sum + (lane.counts.at(-1) ?? 0), 0);
  const [low, high] = range;
  return html`<p class="soft" role="status">
    ${before > 0 && `Due sooner than in ${duration(10 ** low)}: ${count(before)}. `}
    ${after > 0 && `Due later than in ${duration(10 ** high)}: ${count(after)}. `}
    Heights are square roots of counts, each lane by its own largest.</p>`;
}
