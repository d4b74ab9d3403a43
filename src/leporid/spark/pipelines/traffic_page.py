"""The report on a stream's traffic: one HTML page with everything in it, to be mailed or kept.

Pure: figures in, text out. Charts are drawn in the browser by `assets` and the web UI's uPlot, of
the data that the page holds. Whatever came from messages (names, keys) is escaped; the page loads
nothing, and its security policy allows the scripts that it holds and no other.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any, Final

from leporid.webui import FOLDER

Rows = Sequence[Mapping[str, Any]]

# A chart of more intervals than that is no easier to read, and the page is larger.
INTERVALS_MAX = 300
INTERVALS_SECONDS = (1, 5, 10, 30, 60, 300, 900, 3600, 21_600, 86_400, 7 * 86_400)
# Beyond that, counts may be by minutes.
FINE_SECONDS = 3600
# What `filled` adds to a gap at most.
FILLED_MAX = 2_000
# Of a class; it begins where the one before it ends.
UP_TO_LABEL = "each bar is up to its label"
# What the web UI's copy of uPlot has behind it, as it is imported there; here it is no module.
EXPORT: Final = "export default uPlot;\n"


def page(stream: str, found: Mapping[str, Rows], now: float, every_seconds: float = 60) -> str:
    """Return the page.

    Args:
        stream: what it is about.
        found: the rows of each table: totals, minutes, keys, sizes, delays, sessions.
        now: seconds since 1970.
        every_seconds: the length of an interval of `minutes`.
    """
    made = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    name = html.escape(stream)
    total = found["totals"][0]
    charts: list[dict[str, Any]] = []
    if not total["messages"]:
        body = "<p>There is no message in this time.</p>"
    else:
        charts = _charts(found, every_seconds)
        body = (
            f"<p>{stamp(total['first'])} to {stamp(total['last'])}</p>"
            + _figures(total)
            + f'<div class="charts">{"".join(_section(chart) for chart in charts)}</div>'
            + _tables(found)
        )
    style, scripts = _vendored("uplot.css") + _asset("report.css"), _scripts()
    allowed = " ".join(f"'{_digest(text)}'" for text in scripts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"style-src 'unsafe-inline'; script-src {allowed}\">"
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Traffic of {name}</title><style>{style}</style></head><body><main>"
        f"<h1>Traffic of {name}</h1>{body}"
        f"<footer>Made by leporid on {made}. Times are UTC.</footer></main>"
        f'<script type="application/json" id="data">{_data(charts)}</script>'
        + "".join(f"<script>{text}</script>" for text in scripts)
        + "</body></html>\n"
    )


@functools.cache
def _asset(name: str) -> str:
    """Return one of the files that every page holds."""
    return files("leporid.spark.pipelines").joinpath("assets", name).read_text(encoding="utf-8")


@functools.cache
def _vendored(name: str) -> str:
    return (FOLDER / "vendor" / name).read_text(encoding="utf-8")


def _scripts() -> tuple[str, str]:
    licence, uplot = _vendored("LICENSE-uplot.txt"), _vendored("uplot.js").removesuffix(EXPORT)
    return f"/*\n{licence}*/\n{uplot}", _asset("report.js")


def _digest(text: str) -> str:
    """Return a script's hash, as a Content-Security-Policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(charts: Sequence[Mapping[str, Any]]) -> str:
    """Return what the script draws, as JSON that cannot end the element it is in."""
    drawn = [{key: chart[key] for key in chart if key not in HEAD} for chart in charts]
    return json.dumps(drawn, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _figures(total: Mapping[str, Any]) -> str:
    seconds = max((total["last"] - total["first"]).total_seconds(), 1.0)
    shown = [
        (f"{total['messages']:,}", "messages"),
        (f"{short(total['messages'] / seconds)}/s", "mean rate"),
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


# ---------------------------------------------------------------- charts

# Of a chart, what stands above it and is not drawn.
HEAD = ("title", "text", "wide")


def _charts(found: Mapping[str, Rows], every_seconds: float) -> list[dict[str, Any]]:
    """Return what is drawn: `x` are seconds since 1970, `labels` instead the classes of bars."""
    minutes = filled(found["minutes"], every_seconds)
    x = [row["minute"].timestamp() for row in minutes]
    every = spoken(every_seconds)

    def lines(title: str, text: str, unit: str, **columns: str) -> dict[str, Any]:
        series = [
            {"label": label, "values": [row[column] for row in minutes]}
            for label, column in columns.items()
        ]
        return {"title": title, "text": text, "unit": unit, "x": x, "series": series}

    def bars(title: str, text: str, rows: Rows, write: Any) -> dict[str, Any]:
        classes = doubling(rows)
        series = [{"label": "messages", "values": [row["messages"] for row in classes]}]
        labels = [write(row["upto"]) for row in classes]
        return {"title": title, "text": text, "unit": "count", "labels": labels, "series": series}

    charts = [
        lines("Messages", f"in each {every}", "count", messages="messages"),
        lines("Volume", f"bytes of bodies in each {every}", "bytes", bytes="bytes"),
    ]
    if found["delays"]:
        text = f"from sending to the broker, in each {every}"
        # Each with a scale of its own: beside a second, nothing is seen of milliseconds.
        charts.append(lines("Median delay", text, "ms", median="delay_ms_p50"))
        charts.append(lines("Longest delay", text, "ms", maximum="delay_ms_max"))
    text = f"messages by size of body: {UP_TO_LABEL}"
    charts.append(bars("Sizes", text, found["sizes"], size))
    if found["delays"]:
        text = f"messages by delay: {UP_TO_LABEL}"
        charts.append(bars("Delays", text, found["delays"], delay))
    # The first one is as wide as two, so that no place stays empty.
    charts[0]["wide"] = len(charts) % 2 == 1
    return [{"id": f"chart-{at}", **chart} for at, chart in enumerate(charts)]


def _section(chart: Mapping[str, Any]) -> str:
    kind = ' class="all"' if chart.get("wide") else ""
    return (
        f"<section{kind}><h2>{chart['title']}</h2><p>{chart['text']}</p>"
        f'<div class="chart" id="{chart["id"]}" role="img" aria-label="{chart["title"]}: '
        f'{chart["text"]}"><noscript>This chart needs JavaScript.</noscript></div></section>'
    )


def interval_seconds(span_seconds: float) -> int:
    """Return the length of an interval that shows a time well: enough of them, and not too many."""
    for seconds in INTERVALS_SECONDS:
        if seconds < 60 and span_seconds > FINE_SECONDS:
            continue
        if span_seconds / seconds <= INTERVALS_MAX:
            return seconds
    return INTERVALS_SECONDS[-1]


def spoken(seconds: float) -> str:
    """Return the length of an interval in words: `minute`, `10 seconds`."""
    for size_, name in ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        count = seconds / size_
        if count >= 1 and count == int(count):
            return name if count == 1 else f"{count:.0f} {name}s"
    return f"{seconds:g} seconds"


def filled(minutes: Rows, every_seconds: float) -> list[Mapping[str, Any]]:
    """Put a row of nothing where an interval had no message, so that a line falls to zero there.

    A single interval gets one before it and one after it: one point makes no line.
    """
    nothing = {"messages": 0, "bytes": 0, "delay_ms_p50": None, "delay_ms_max": None}
    step = timedelta(seconds=every_seconds)
    if len(minutes) == 1:
        at = minutes[0]["minute"]
        return [
            {**nothing, "minute": at - step},
            minutes[0],
            {**nothing, "minute": at + step},
        ]
    found: list[Mapping[str, Any]] = list(minutes[:1])
    for row in minutes[1:]:
        at = found[-1]["minute"] + step
        gap = (row["minute"] - at) // step
        # The zeros at both ends of a long gap draw the same line as all of them.
        places = range(gap) if gap <= FILLED_MAX else (0, gap - 1)
        found += [{**nothing, "minute": at + place * step} for place in places]
        found.append(row)
    return found


def doubling(classes: Rows) -> list[Mapping[str, Any]]:
    """Put in the classes between the least and the greatest that have no message.

    Args:
        classes: rising; `upto` of each is a power of two.
    """
    found: list[Mapping[str, Any]] = []
    for row in classes:
        while found and found[-1]["upto"] * 2 < row["upto"]:
            found.append({"upto": found[-1]["upto"] * 2, "messages": 0})
        found.append(row)
    return found


# ---------------------------------------------------------------- tables


def _tables(found: Mapping[str, Rows]) -> str:
    most = max((row["messages"] for row in found["keys"]), default=1)
    keys = "".join(
        f"<tr><td>{named(row['exchange'])}</td>"
        f'<td class="key">{html.escape(row["routing_key"] or "")}</td>'
        f'<td class="meter"><i style="width:{100 * row["messages"] / most:.1f}%"></i></td>'
        f'<td class="n">{row["messages"]:,}</td><td class="n">{100 * row["share"]:.1f} %</td>'
        f'<td class="n">{size(row["bytes_mean"])}</td>'
        f'<td class="n">{delay(row["delay_ms_p99"])}</td></tr>'
        for row in found["keys"]
    )
    sessions = "".join(
        f'<tr><td class="key">{html.escape(str(row["key"]))}</td>'
        f'<td class="n">{row["messages"]:,}</td><td class="n">{size(row["bytes"])}</td>'
        f'<td class="n time">{_of_two_lines(row["started_at"])}</td>'
        f'<td class="n">{timedelta(seconds=round(row["seconds"]))}</td></tr>'
        for row in found["sessions"]
    )
    return (
        '<section class="wide"><h2>Busiest keys</h2><table><tr><th>exchange</th><th>routing key'
        '</th><th class="meter"></th><th class="n">messages</th><th class="n">of its exchange</th>'
        f'<th class="n">mean size</th><th class="n">99 % delay</th></tr>{keys}</table></section>'
        '<section class="wide"><h2>Largest sessions</h2><p>times in which a key was busy</p>'
        '<table><tr><th>key</th><th class="n">messages</th><th class="n">bytes</th>'
        f'<th class="n">from</th><th class="n">lasted</th></tr>{sessions}</table></section>'
    )


# ---------------------------------------------------------------- figures for people


def stamp(moment: datetime) -> str:
    """Return a time."""
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _of_two_lines(moment: datetime) -> str:
    """Return a time that a narrow column divides between day and hour only."""
    return " ".join(f"<span>{part}</span>" for part in stamp(moment).split())


def named(exchange: str | None) -> str:
    """Return an exchange's name."""
    return html.escape(exchange) if exchange else "(default)"


def short(number: float) -> str:
    """Return a number in few characters: 1.5 k, 20 M."""
    for size_, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= size_:
            return three(number / size_) + unit
    return three(number)


def three(number: float) -> str:
    """Return a number below some thousands with three digits."""
    return f"{number:.0f}" if abs(number) >= 99.95 else f"{number:.3g}"


def size(number: float | None) -> str:
    """Return bytes for people."""
    if number is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{three(number)} {unit}"
        number /= 1024
    return f"{three(number)} TiB"


def delay(milliseconds: float | None) -> str:
    """Return a delay for people."""
    if milliseconds is None:
        return "–"
    if abs(milliseconds) < 1000:
        return f"{three(milliseconds)} ms"
    seconds = milliseconds / 1000
    return f"{three(seconds)} s" if seconds < 120 else f"{three(seconds / 60)} min"
