// Draws the charts of the report on a stream's traffic. It reads the page's data and the style
// sheet's colours, and knows nothing of streams. Names from messages are never in the data.
"use strict";

const MINUTE = 60;
const DAY = 86400;
const AXIS_WIDTH = 68;
const AXIS_HEIGHT = 30;
const LABEL_WIDTH_MIN = 50;
// Of one character, with some of the room between two labels.
const CHARACTER_WIDTH = 8;
// Room above, and to the right for half of the last mark's label.
const PADDING = [12, 30, 0, 0];
const BAR_WIDTH_MAX = 64;
const HEIGHT = 230;

const three = (number) =>
  Math.abs(number) >= 99.95 ? number.toFixed(0) : String(Number(number.toPrecision(3)));

/** Write a number with the unit that `greatest`, of the same axis, is written with. */
function scaled(number, greatest, base, units) {
  let unit = 0;
  let divisor = 1;
  while (unit < units.length - 1 && Math.abs(greatest) >= divisor * base) {
    divisor *= base;
    unit += 1;
  }
  return `${three(number / divisor)} ${units[unit]}`.trim();
}

const UNITS = {
  count: (number, greatest) => scaled(number, greatest, 1000, ["", "k", "M", "G", "T"]),
  bytes: (number, greatest) => scaled(number, greatest, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]),
  ms: (number, greatest) => {
    if (Math.abs(greatest) < 1000) return `${three(number)} ms`;
    if (Math.abs(greatest) < 120000) return `${three(number / 1000)} s`;
    return `${three(number / 60000)} min`;
  },
};

const TENS = [1, 2, 2.5, 5];
const STEPS = {
  count: Array.from({ length: 16 }, (_, at) => [1, 2, 5].map((one) => one * 10 ** at)).flat(),
  bytes: Array.from({ length: 50 }, (_, at) => 2 ** at),
  ms: Array.from({ length: 18 }, (_, at) => TENS.map((one) => one * 10 ** (at - 4))).flat(),
  time: [1, 5, 10, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200].concat(
    [1, 2, 7, 14, 28, 56, 112, 224, 448].map((days) => days * DAY),
  ),
};

const two = (number) => String(number).padStart(2, "0");
const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

/** Write a time in UTC as finely as marks that are `step` seconds apart need it. */
function moment(seconds, step) {
  const at = new Date(seconds * 1000);
  const day = `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
  const minute = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
  if (step >= DAY) return day;
  if (minute === "00:00" && at.getUTCSeconds() === 0) return day;
  return step >= MINUTE ? minute : `${minute}:${two(at.getUTCSeconds())}`;
}

const full = (seconds) => new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 19);

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Say how an axis looks. */
function axis(more) {
  const grid = { stroke: colour("--line"), width: 1 };
  const font = "12px system-ui, sans-serif";
  return { stroke: colour("--soft"), grid, ticks: { show: false }, font, ...more };
}

/** The axis of values, with the same unit at all marks. */
function valueAxis(unit) {
  const values = (plot, marks) => {
    const greatest = marks.reduce((most, one) => Math.max(most, one ?? 0), 0);
    return marks.map((one) => (one === null ? "" : one === 0 ? "0" : UNITS[unit](one, greatest)));
  };
  return axis({ size: AXIS_WIDTH, incrs: STEPS[unit], values });
}

function seriesOf(chart, more) {
  return chart.series.map((one) => ({
    label: one.label,
    stroke: colour("--s0"),
    width: 2,
    value: (plot, number) => (number == null ? "–" : UNITS[chart.unit](number, number)),
    ...more,
  }));
}

function lines(chart) {
  const last = chart.x.length - 1;
  return {
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
    scales: { x: { range: () => [chart.x[0], Math.max(chart.x[last], chart.x[0] + 1)] } },
    axes: [
      axis({
        size: AXIS_HEIGHT,
        space: 70,
        incrs: STEPS.time,
        values: (plot, marks, at, space, step) => marks.map((one) => moment(one, step)),
      }),
      valueAxis(chart.unit),
    ],
    series: [
      { label: "UTC", value: (plot, at) => (at == null ? "–" : full(at)) },
      ...seriesOf(chart, { points: { show: chart.x.length < 40, size: 6 } }),
    ],
  };
}

function bars(chart, width) {
  const count = chart.labels.length;
  // Few classes do not fill the frame.
  const places = Math.max(count, 8);
  const longest = Math.max(...chart.labels.map((label) => label.length));
  const labelWidth = Math.max(LABEL_WIDTH_MIN, longest * CHARACTER_WIDTH);
  const every = Math.max(1, Math.ceil((places * labelWidth) / (width - AXIS_WIDTH)));
  const marks = chart.labels.map((_, at) => at).filter((at) => at % every === 0);
  return {
    scales: { x: { time: false, range: () => [-0.5, places - 0.5] } },
    axes: [
      axis({
        size: AXIS_HEIGHT,
        grid: { show: false },
        splits: () => marks,
        values: () => marks.map((at) => chart.labels[at]),
      }),
      valueAxis(chart.unit),
    ],
    series: [
      { label: "up to", value: (plot, at) => (at == null ? "–" : chart.labels[at]) },
      ...seriesOf(chart, {
        fill: colour("--s0"),
        width: 0,
        paths: uPlot.paths.bars({ size: [0.8, BAR_WIDTH_MAX] }),
        points: { show: false },
      }),
    ],
  };
}

function draw(chart) {
  const place = document.getElementById(chart.id);
  const x = chart.x ?? chart.labels.map((_, at) => at);
  const width = place.clientWidth;
  const shape = chart.labels ? bars(chart, width) : lines(chart);
  const top = (plot, least, most) => [0, most > 0 ? most * 1.08 : 1];
  shape.scales.y = { range: top };
  const cursor = { drag: { x: false } };
  const options = { width, height: HEIGHT, padding: PADDING, cursor, ...shape };
  place.replaceChildren();
  new uPlot(options, [x, ...chart.series.map((one) => one.values)], place);
}

const charts = JSON.parse(document.getElementById("data").textContent);
const drawAll = () => charts.forEach(draw);
drawAll();
addEventListener("resize", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
