"""The report on a stream's traffic: one HTML page with everything in it, to be mailed or kept.

Pure: figures in, text out. Whatever came from messages (names, keys) is escaped; the page holds no
script and loads nothing.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from leporid.spark.pipelines import charts

Rows = Sequence[Mapping[str, Any]]

STYLE = """
:root { --ink: #1d2733; --soft: #5d6b7a; --line: #dfe5ec; --back: #f6f8fa; --card: #fff;
  --s0: #1565c0; --s1: #c2571a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf0; --soft: #98a6b5; --line: #2c3743;
  --back: #12181f; --card: #1a222b; --s0: #6db3f8; --s1: #f0a060; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 20px 48px; }
h1 { font-size: 26px; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 0 0 2px; }
p { margin: 0 0 10px; color: var(--soft); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(128px, 1fr)); gap: 12px;
  margin: 24px 0; }
.figure, section { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 14px 16px; }
.figure b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; }
.figure span { color: var(--soft); font-size: 13px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(480px, 100%), 1fr));
  gap: 16px; }
section { min-width: 0; overflow-x: auto; }
section.all { grid-column: 1 / -1; }
section.all svg { min-width: 720px; }
section.wide { margin-top: 16px; }
svg { width: 100%; height: auto; display: block; }
.axis { fill: var(--soft); font-size: 12px; }
.grid { stroke: var(--line); fill: none; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.line.s0 { stroke: var(--s0); } .line.s1 { stroke: var(--s1); }
.dot.s0, .key.s0 { fill: var(--s0); background: var(--s0); }
.dot.s1, .key.s1 { fill: var(--s1); background: var(--s1); }
.bar { fill: var(--s0); }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin: 0 6px 0 12px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 500; font-size: 13px; }
th, td { padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
td.n, th.n { text-align: right; }
td.meter { width: 22%; min-width: 90px; }
.meter i { display: block; height: 8px; background: var(--s0); border-radius: 2px; min-width: 1px; }
footer { margin-top: 24px; color: var(--soft); font-size: 13px; }
"""


def page(stream: str, found: Mapping[str, Rows], now: float, every: str = "1 minute") -> str:
    """Return the page.

    Args:
        stream: what it is about.
        found: the rows of each table: totals, minutes, keys, sizes, delays, sessions.
        now: seconds since 1970.
        every: the length of an interval.
    """
    made = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    name = html.escape(stream)
    total = found["totals"][0]
    if not total["messages"]:
        body = "<p>There is no message in this time.</p>"
    else:
        span = f"{stamp(total['first'])} to {stamp(total['last'])}"
        body = (
            f"<p>{span}</p>"
            + _figures(total)
            + _charts(found, html.escape(every.removeprefix("1 ")))
            + _tables(found)
        )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Traffic of {name}</title><style>{STYLE}</style></head><body><main>"
        f"<h1>Traffic of {name}</h1>{body}"
        f"<footer>Made by leporid on {made}. Times are UTC.</footer></main></body></html>\n"
    )


def _figures(total: Mapping[str, Any]) -> str:
    seconds = max((total["last"] - total["first"]).total_seconds(), 1.0)
    shown = [
        (f"{total['messages']:,}", "messages"),
        (f"{charts.short(total['messages'] / seconds)}/s", "mean rate"),
        (size(total["bytes"]), "of bodies"),
        (size(total["bytes_mean"]), "mean size"),
        (f"{total['keys']:,}", "routing keys"),
        (delay(total["delay_ms_p50"]), "median delay"),
        (delay(total["delay_ms_p99"]), "delay of 99 %"),
    ]
    if total.get("bad"):
        shown.insert(1, (f"{total['bad']:,}", "do not fit the archive's schema"))
    return (
        '<div class="figures">'
        + "".join(
            f'<div class="figure"><b>{value}</b><span>{what}</span></div>' for value, what in shown
        )
        + "</div>"
    )


def _charts(found: Mapping[str, Rows], every: str) -> str:
    minutes = filled(found["minutes"])
    times = [row["minute"] for row in minutes]
    rate = [row["messages"] for row in minutes]
    volume = [row["bytes"] for row in minutes]
    drawn = [
        "",
        _chart(
            "Volume",
            f"bytes of bodies in each {every}",
            charts.lines(times, [("bytes", volume)], "B"),
        ),
        _chart(
            "Sizes",
            "messages by size of body; each class reaches to its label",
            charts.bars([(size(row["upto"]), row["messages"]) for row in found["sizes"]], ""),
        ),
    ]
    if found["delays"]:
        median = [row["delay_ms_p50"] for row in minutes]
        worst = [row["delay_ms_max"] for row in minutes]
        legend = (
            'from sending to the broker<i class="key s0"></i>median<i class="key s1"></i>maximum'
        )
        lines = charts.lines(times, [("median", median), ("maximum", worst)], "ms")
        drawn.append(_chart("Delay", legend, lines))
        drawn.append(
            _chart(
                "Delays",
                "messages by delay; each class reaches to its label",
                charts.bars([(delay(row["upto"]), row["messages"]) for row in found["delays"]], ""),
            )
        )
    # The first one is as wide as two, so that no place stays empty.
    wide = len(drawn) % 2 == 1
    lines = charts.lines(
        times, [("messages", rate)], "", 2 * charts.WIDTH if wide else charts.WIDTH
    )
    drawn[0] = _chart("Messages", f"in each {every}", lines, "all" if wide else "")
    return f'<div class="charts">{"".join(drawn)}</div>'


def _chart(title: str, text: str, drawing: str, kind: str = "") -> str:
    return f'<section class="{kind}"><h2>{title}</h2><p>{text}</p>{drawing}</section>'


def _tables(found: Mapping[str, Rows]) -> str:
    most = max((row["messages"] for row in found["keys"]), default=1)
    keys = "".join(
        f"<tr><td>{named(row['exchange'])}</td><td>{html.escape(row['routing_key'] or '')}</td>"
        f'<td class="meter"><i style="width:{100 * row["messages"] / most:.1f}%"></i></td>'
        f'<td class="n">{row["messages"]:,}</td><td class="n">{100 * row["share"]:.1f} %</td>'
        f'<td class="n">{size(row["bytes_mean"])}</td>'
        f'<td class="n">{delay(row["delay_ms_p99"])}</td></tr>'
        for row in found["keys"]
    )
    sessions = "".join(
        f"<tr><td>{html.escape(str(row['key']))}</td><td>{stamp(row['started_at'])}</td>"
        f'<td class="n">{timedelta(seconds=round(row["seconds"]))}</td>'
        f'<td class="n">{row["messages"]:,}</td><td class="n">{size(row["bytes"])}</td></tr>'
        for row in found["sessions"]
    )
    return (
        '<section class="wide"><h2>Busiest keys</h2><table><tr><th>exchange</th><th>routing key'
        '</th><th></th><th class="n">messages</th><th class="n">of its exchange</th>'
        f'<th class="n">mean size</th><th class="n">99 % delay</th></tr>{keys}</table></section>'
        '<section class="wide"><h2>Largest sessions</h2><p>times in which a key was busy</p>'
        '<table><tr><th>key</th><th>from</th><th class="n">lasted</th><th class="n">messages</th>'
        f'<th class="n">bytes</th></tr>{sessions}</table></section>'
    )


def filled(minutes: Rows, most: int = 2_000) -> list[Mapping[str, Any]]:
    """Put a row of nothing where a minute had no message, so that a line falls to zero there."""
    if len(minutes) < 2:
        return list(minutes)
    step = min(after["minute"] - before["minute"] for before, after in itertools.pairwise(minutes))
    nothing = {"messages": 0, "bytes": 0, "delay_ms_p50": None, "delay_ms_max": None}
    found: list[Mapping[str, Any]] = [minutes[0]]
    for row in minutes[1:]:
        at = found[-1]["minute"] + step
        gap = (row["minute"] - at) // step
        # The zeros at both ends of a long gap draw the same line as all of them.
        places = range(gap) if gap <= most else (0, gap - 1)
        found += [{"minute": at + place * step, **nothing} for place in places]
        found.append(row)
    return found


def stamp(moment: datetime) -> str:
    """Return a time."""
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def named(exchange: str | None) -> str:
    """Return an exchange's name."""
    return html.escape(exchange) if exchange else "(default)"


def size(number: float | None) -> str:
    """Return bytes for people."""
    if number is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{charts.three(number)} {unit}"
        number /= 1024
    return f"{charts.three(number)} TiB"


def delay(milliseconds: float | None) -> str:
    """Return a delay for people."""
    if milliseconds is None:
        return "–"
    if abs(milliseconds) < 1000:
        return f"{charts.three(milliseconds)} ms"
    seconds = milliseconds / 1000
    return f"{charts.three(seconds)} s" if seconds < 120 else f"{charts.three(seconds / 60)} min"
