/* Numbers and times as people read them.

   Must not know where they come from. Invariant: what is not a number is a dash, never 0. */

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const TENTHS = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const NONE = "–";

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const TIME_UNITS = [
  [365 * 86400e3, "y"],
  [86400e3, "d"],
  [3600e3, "h"],
  [60e3, "min"],
  [1e3, "s"],
];

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** 1234567 is "1,234,567". */
export function count(value) {
  return isNumber(value) ? WHOLE.format(value) : NONE;
}

/** 1234567 is "1.2M": for axes and narrow places. */
export function short(value) {
  return isNumber(value) ? SHORT.format(value) : NONE;
}

/** A number per second: "0/s", "0.2/s", "1,234/s". */
export function rate(value) {
  if (!isNumber(value)) {
    return NONE;
  }
  if (value !== 0 && Math.abs(value) < 0.05) {
    return value > 0 ? "<0.1/s" : ">-0.1/s";
  }
  return `${(Math.abs(value) < 100 ? TENTHS : WHOLE).format(value)}/s`;
}

/** 1536 is "1.5 KiB". */
export function bytes(value) {
  if (!isNumber(value)) {
    return NONE;
  }
  let left = value;
  let unit = 0;
  while (Math.abs(left) >= 1024 && unit < BYTE_UNITS.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${(unit === 0 || left >= 100 ? WHOLE : TENTHS).format(left)} ${BYTE_UNITS[unit]}`;
}

/** 1536 is "1.5 KiB/s". */
export function byteRate(value) {
  return isNumber(value) ? `${bytes(value)}/s` : NONE;
}

/** Milliseconds in two units at most: "350 ms", "2 min 5 s", "3 d 4 h". */
export function duration(ms) {
  if (!isNumber(ms)) {
    return NONE;
  }
  const size = Math.abs(ms);
  const sign = ms < 0 ? "-" : "";
  if (size < 1000) {
    return `${sign}${size < 10 ? TENTHS.format(size) : WHOLE.format(size)} ms`;
  }
  const at = TIME_UNITS.findIndex(([unit]) => size >= unit);
  const [unit, name] = TIME_UNITS[at];
  const below = TIME_UNITS[at + 1];
  if (below === undefined) {
    return `${sign}${size < 10e3 ? TENTHS.format(size / unit) : WHOLE.format(size / unit)} ${name}`;
  }
  const whole = Math.floor(size / unit);
  const rest = Math.floor((size % unit) / below[0]);
  return rest ? `${sign}${whole} ${name} ${rest} ${below[1]}` : `${sign}${whole} ${name}`;
}

/** Milliseconds that have passed since something: "just now", "5 min 2 s ago". */
export function age(ms) {
  if (!isNumber(ms)) {
    return NONE;
  }
  if (ms < 0) {
    return `in ${duration(-ms)}`;
  }
  return ms < 1000 ? "just now" : `${duration(ms)} ago`;
}

/** A Date, or milliseconds since 1970, by the clock of this machine: "2026-11-23 14:25:51". */
export function moment(when) {
  const date = when instanceof Date ? when : new Date(when);
  if (when === null || when === undefined || Number.isNaN(date.getTime())) {
    return NONE;
  }
  const two = (number) => String(number).padStart(2, "0");
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day} ${[date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":")}`;
}

/** 0.256 is "26 %". */
export function percent(value) {
  return isNumber(value) ? `${WHOLE.format(value * 100)} %` : NONE;
}

/** "1 message", "2 messages": what is counted is given in the singular. */
export function counted(number, noun, plural = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : plural}`;
}
