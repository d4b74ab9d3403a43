"""Charts as SVG, written by hand: lines over time, bars by class. No library, no script.

Colours and fonts come from the page's style sheet (classes `line`, `bar`, `axis`, `grid`), so that
a chart follows the page when that is dark.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from datetime import UTC, datetime

WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 32

# Between the marks of a time axis.
STEPS_SECONDS = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10_800,
    21_600,
    43_200,
    86_400,
)


def ticks(most: float, about: int = 4) -> list[float]:
    """Return round numbers from 0 to at least `most`."""
    if most <= 0:
        return [0.0, 1.0]
    rough = most / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    count = math.ceil(most / step - 1e-9)
    return [round(step * at, 12) for at in range(count + 1)]


def short(number: float) -> str:
    """Return a number in few characters: 1.5 k, 20 M."""
    for size, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= size:
            return three(number / size) + unit
    return three(number)


def three(number: float) -> str:
    """Return a number below some thousands with three digits."""
    return f"{number:.0f}" if abs(number) >= 99.95 else f"{number:.3g}"


def lines(
    times: Sequence[datetime],
    series: Sequence[tuple[str, Sequence[float | None]]],
    unit: str,
    width: int = WIDTH,
) -> str:
    """Draw values over time; a gap where a value is missing.

    Args:
        times: rising.
        series: a name for the legend, and a value for each time.
        unit: of the values.
        width: of the drawing.
    """
    most = max((value for _, values in series for value in values if value is not None), default=0)
    marks = ticks(most)
    begin, end = times[0].timestamp(), times[-1].timestamp()
    span = end - begin or 1.0

    def x(seconds: float) -> float:
        return LEFT + (seconds - begin) / span * (width - LEFT - RIGHT)

    parts = _frame(marks, unit, width)
    for moment in moments(begin, end):
        label = datetime.fromtimestamp(moment, UTC).strftime(_form(span))
        parts.append(_text(x(moment), HEIGHT - 10, label, "middle"))
    for number, (_name, values) in enumerate(series):
        for run in _runs(times, values):
            points = [(x(moment.timestamp()), _y(value, marks)) for moment, value in run]
            if len(points) == 1:
                ((left, top),) = points
                parts.append(
                    f'<circle class="dot s{number}" cx="{left:.1f}" cy="{top:.1f}" r="3"/>'
                )
                continue
            path = "M" + "L".join(f"{left:.1f} {top:.1f}" for left, top in points)
            parts.append(f'<path class="line s{number}" d="{path}"/>')
    return _svg(parts, ", ".join(name for name, _ in series), width)


def bars(classes: Sequence[tuple[str, float]], unit: str) -> str:
    """Draw a bar for each class, upright, with its name below and its value on hover."""
    marks = ticks(max((value for _, value in classes), default=0))
    parts = _frame(marks, unit, WIDTH)
    # One class alone does not fill the frame.
    wide = (WIDTH - LEFT - RIGHT) / max(8, len(classes))
    every = max(1, math.ceil(len(classes) / 14))
    for at, (name, value) in enumerate(classes):
        top = _y(value, marks)
        left = LEFT + at * wide
        tip = f"<title>{html.escape(name)}: {value:,.0f} {html.escape(unit)}</title>"
        parts.append(
            f'<rect class="bar" x="{left + wide * 0.1:.1f}" y="{top:.1f}" '
            f'width="{wide * 0.8:.1f}" height="{_y(0, marks) - top:.1f}">{tip}</rect>'
        )
        if at % every == 0:
            parts.append(_text(left + wide / 2, HEIGHT - 10, name, "middle"))
    return _svg(parts, unit, WIDTH)


def _y(value: float, marks: Sequence[float]) -> float:
    return HEIGHT - BOTTOM - value / marks[-1] * (HEIGHT - TOP - BOTTOM)


def _frame(marks: Sequence[float], unit: str, width: int) -> list[str]:
    parts = []
    for mark in marks:
        top = _y(mark, marks)
        parts.append(f'<path class="grid" d="M{LEFT} {top:.1f}H{width - RIGHT}"/>')
        label = short(mark) + _after(mark, marks[-1], unit)
        parts.append(_text(LEFT - 8, top + 4, label, "end"))
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text class="axis" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{html.escape(text)}</text>"
    )


def _svg(parts: Sequence[str], label: str, width: int) -> str:
    return (
        f'<svg viewBox="0 0 {width} {HEIGHT}" role="img" aria-label="{html.escape(label)}">'
        + "".join(parts)
        + "</svg>"
    )


def _runs(
    times: Sequence[datetime], values: Sequence[float | None]
) -> list[list[tuple[datetime, float]]]:
    """Return the values that follow one another without a gap."""
    runs: list[list[tuple[datetime, float]]] = [[]]
    for moment, value in zip(times, values, strict=True):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((moment, value))
    return [run for run in runs if run]


def moments(begin: float, end: float, most: int = 7) -> list[float]:
    """Return round times between two, in seconds since 1970: the ends only if they are round."""
    span = end - begin
    step = next((step for step in STEPS_SECONDS if span / step < most), None)
    if step is None:
        step = math.ceil(span / most / 86_400) * 86_400
    first = math.ceil(begin / step)
    return [float(at * step) for at in range(first, math.floor(end / step) + 1)] or [begin]


def _form(span_seconds: float) -> str:
    if span_seconds > 3 * 86_400:
        return "%d %b"
    if span_seconds > 20 * 3600:
        return "%d %b %H:%M"
    return "%H:%M" if span_seconds >= 420 else "%H:%M:%S"


def _after(mark: float, last: float, unit: str) -> str:
    """Return the unit, which only the uppermost mark has."""
    if mark != last or len(unit) > 4 or not unit:
        return ""
    return unit if abs(mark) >= 1e3 else f" {unit}"
