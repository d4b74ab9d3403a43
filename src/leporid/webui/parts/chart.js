/* A chart of values over time, with its legend, its range and the same as a table.

   Must not know what is measured. Invariants: a sample changes pixels only, no element is made
   anew; colours are those of the stylesheet. */

import * as format from "../core/format.js";
import { html, useEffect, useRef, useState } from "../core/html.js";
import { onThemeChange } from "../core/theme.js";
import { Button } from "./button.js";

const RANGES = [
  { id: "minute", title: "Minute" },
  { id: "hour", title: "Hour" },
  { id: "day", title: "Day" },
];
const COLOURS = 8;
const TABLE_ROWS = 60;
const HALF_DAY_S = 12 * 3600;

/** How values of a unit are written, short for axes and whole for people. */
const UNITS = {
  rate: [(value) => format.short(value), format.rate],
  count: [(value) => format.short(value), format.count],
  bytes: [format.bytes, format.bytes],
  octets: [format.bytes, format.byteRate],
  ms: [format.duration, format.duration],
};

/** Steps of the axis for bytes: powers of two, so that its numbers are round. */
const BYTE_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);

/** Of the axis for counts: there is no half of a message. */
const COUNT_STEPS = Array.from({ length: 13 }, (_, power) =>
  [1, 2, 5].map((each) => each * 10 ** power),
).flat();
/** Of the axis for time, in seconds: samples are a second apart at least. */
const TIME_STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400,
];
/** Of the axes for rates and durations, whose numbers are written with one decimal. */
const TENTH_STEPS = [0.1, 0.2, 0.5, ...COUNT_STEPS];
const STEPS = {
  bytes: BYTE_STEPS, octets: BYTE_STEPS, count: COUNT_STEPS, rate: TENTH_STEPS, ms: TENTH_STEPS,
};
/** Units whose numbers take more room at the axis. */
const WIDE_UNITS = ["bytes", "octets", "ms"];

let library = null;

function loaded() {
  library ??= import("../vendor/uplot.js").then((module) => module.default);
  return library;
}

function written(unit) {
  return (UNITS[unit] ?? UNITS.count)[1];
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The time of day, with seconds where the whole is short. */
function clock(seconds, span) {
  const text = format.moment(seconds * 1000).slice(11);
  return span > 600 ? text.slice(0, 5) : text;
}

function options(series, size, onCursor) {
  const unit = series[0]?.unit ?? "count";
  const grid = { stroke: colour("--chart-grid"), width: 1 };
  const axis = {
    stroke: colour("--text-soft"),
    font: "11px system-ui, sans-serif",
    grid,
    ticks: { ...grid, size: 4 },
  };
  return {
    ...size,
    padding: [8, 24, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    hooks: { setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)] },
    scales: {
      y: { range: (plot, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.08 : 1] },
    },
    axes: [
      {
        ...axis,
        size: 28,
        space: 70,
        incrs: TIME_STEPS,
        values: (plot, splits) => {
          const { min, max } = plot.scales.x;
          return splits.map((each) => clock(each, max - min));
        },
      },
      {
        ...axis,
        size: WIDE_UNITS.includes(unit) ? 68 : 48,
        space: 32,
        ...(STEPS[unit] ? { incrs: STEPS[unit] } : {}),
        values: (plot, splits) => splits.map((each) => (UNITS[unit] ?? UNITS.count)[0](each)),
      },
    ],
    series: [
      {},
      ...series.map((each, at) => ({
        label: each.label,
        stroke: colour(`--series-${(at % COLOURS) + 1}`),
        width: 1.75,
        points: { show: false },
        show: !each.hidden,
      })),
    ],
  };
}

/** The drawing itself. */
function Plot({ times, series, height, onCursor }) {
  const box = useRef(null);
  const plot = useRef(null);
  const data = useRef(null);
  data.current = [times, ...series.map((each) => each.values)];
  const shape = series.map((each) => [each.name, each.unit, each.hidden]).join(";");

  useEffect(() => {
    let gone = false;
    const draw = async () => {
      const UPlot = await loaded();
      if (gone || !box.current) {
        return;
      }
      plot.current?.destroy();
      const size = { width: Math.max(box.current.clientWidth, 120), height };
      plot.current = new UPlot(options(series, size, onCursor), data.current, box.current);
    };
    draw();
    const watch = new ResizeObserver(() => {
      const width = box.current?.clientWidth ?? 0;
      if (width > 0 && plot.current && plot.current.width !== width) {
        plot.current.setSize({ width, height });
      }
    });
    watch.observe(box.current);
    const forget = onThemeChange(draw);
    return () => {
      gone = true;
      watch.disconnect();
      forget();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, height]);

  useEffect(() => {
    plot.current?.setData(data.current);
  }, [times, ...series.map((each) => each.values)]);

  return html`<div class="plot" ref=${box}></div>`;
}

/**
 * @param {object} props
 * @param {string} props.title
 * @param {number[]} props.times seconds since 1970, ascending.
 * @param {{name: string, label: string, values: (number|null)[],
 *   unit?: "rate"|"count"|"bytes"|"octets"|"ms"}[]} props.series of the same length as times; the
 *   axis has the unit of the first. "octets" is a rate.
 * @param {"minute"|"hour"|"day"} [props.range] which is shown as chosen.
 * @param {function(string)} [props.onRange] without it there is no choice of ranges.
 * @param {string} [props.why] why only the range that is chosen can be shown.
 * @param {number} [props.height] in pixels.
 */
export function Chart({ title, times, series, range, onRange, why = "", height = 180 }) {
  const [asTable, setAsTable] = useState(false);
  const [hidden, setHidden] = useState([]);
  const [cursor, setCursor] = useState(null);
  const drawn = series.map((each) => ({ ...each, hidden: hidden.includes(each.name) }));
  const at = cursor !== null && cursor < times.length ? cursor : times.length - 1;
  const hide = (name) =>
    setHidden((before) =>
      before.includes(name) ? before.filter((each) => each !== name) : [...before, name],
    );
  // A line needs two values; a rate begins with the second sample.
  const isNone = series.every(({ values }) => values.filter((each) => each !== null).length < 2);
  const said = series
    .map((each) => `${each.label} ${written(each.unit)(each.values[times.length - 1])}`)
    .join(", ");
  return html`<figure class="chart">
    <figcaption class="chart-head">
      <span class="chart-title">${title}</span>
      <span class="chart-time" aria-hidden="true"
        >${cursor !== null && at >= 0 ? format.moment(times[at] * 1000) : ""}</span
      >
      <span class="chart-tools">
        ${onRange &&
        html`<span class="switch" role="group" aria-label=${`Range of ${title}`}>
          ${RANGES.map(
            (each) =>
              html`<${Button} key=${each.id} why=${each.id === range ? "" : why}
                aria-pressed=${each.id === range ? "true" : "false"}
                onClick=${() => onRange(each.id)}>${each.title}<//>`,
          )}
        </span>`}
        <button type="button" class="button quiet" aria-pressed=${asTable ? "true" : "false"}
          aria-label=${`${title} as a table`} onClick=${() => setAsTable(!asTable)}>Table</button>
      </span>
    </figcaption>
    ${asTable
      ? html`<${Values} title=${title} times=${times} series=${series} />`
      : html`<div class=${isNone ? "chart-box is-none" : "chart-box"} role="img"
          aria-label=${`${title}: ${said}`}>
          <${Plot} times=${times} series=${drawn} height=${height} onCursor=${setCursor} />
          ${isNone && html`<p class="chart-none">${times.length > 2
            ? "Nothing was measured in this time."
            : "The first samples are on their way."}</p>`}
        </div>`}
    <ul class="legend">
      ${drawn.map(
        (each, place) =>
          html`<li key=${each.name}>
            <button type="button" aria-pressed=${each.hidden ? "false" : "true"}
              title=${each.hidden ? `Show ${each.label}` : `Hide ${each.label}`}
              onClick=${() => hide(each.name)}
              ><span class=${`swatch s${(place % COLOURS) + 1}`}></span>${each.label}
              <span class="legend-value">${written(each.unit)(each.values[at])}</span></button
            >
          </li>`,
      )}
    </ul>
  </figure>`;
}

/** The newest values, for who does not see the drawing. */
function Values({ title, times, series }) {
  const span = times.length ? times[times.length - 1] - times[0] : 0;
  const rows = times.map((_, at) => at).slice(-TABLE_ROWS).reverse();
  const time = (at) =>
    span > HALF_DAY_S ? format.moment(times[at] * 1000) : clock(times[at], 0);
  return html`<div class="scroll chart-table" role="region" aria-label=${`${title}, values`}
    tabindex="0">
    <table class="list">
      <thead>
        <tr>
          <th scope="col">Time</th>
          ${series.map(
            (each) => html`<th scope="col" class="right" key=${each.name}>${each.label}</th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (at) =>
            html`<tr key=${times[at]}>
              <th scope="row">${time(at)}</th>
              ${series.map(
                (each) =>
                  html`<td class="right" key=${each.name}
                    >${written(each.unit)(each.values[at])}</td>`,
              )}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
