"""The report on a stream's traffic in a browser: what it draws is seen, on wide and narrow screens.

Its page is a file of its own; it is tested here since it draws with the web UI's uPlot.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.webui.browsing import OVERFLOWING, Watch

from leporid.spark.pipelines.traffic_page import page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MANY = 12_345_678_901
LONG = "eu." + "k" * 240

# Of elements whose text is cut off, or reaches into their neighbour.
CUT = """(css) => [...document.querySelectorAll(css)]
  .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent)"""
# Whether a canvas has a pixel in about the colour of a series.
DRAWN = """() => [...document.querySelectorAll("canvas")].map((canvas) => {
  const hex = getComputedStyle(document.documentElement).getPropertyValue("--s0").trim();
  const wanted = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  for (let at = 0; at < data.length; at += 4) {
    if (wanted.every((one, which) => Math.abs(one - data[at + which]) < 8)) return true;
  }
  return false;
})"""


def figures(messages: int = 3, **more: Any) -> dict[str, Any]:
    return {
        "messages": messages,
        "bytes": messages * 100,
        "bytes_mean": 100.0,
        "delay_ms_p50": 2.0,
        "delay_ms_p99": 30.0,
        "delay_ms_max": 60_000.0,
    } | more


def traffic(minutes: int, messages: int, key: str) -> dict[str, list[dict[str, Any]]]:
    last = NOON + timedelta(minutes=minutes)
    session = {"key": key, "started_at": NOON, "ended_at": last, "seconds": 60.0 * minutes}
    return {
        "totals": [figures(messages, keys=1, first=NOON, last=last)],
        "minutes": [figures(minute=NOON + timedelta(minutes=at)) for at in range(minutes)],
        "keys": [figures(messages, exchange="", routing_key=key, share=1.0)],
        "sizes": [{"upto": 128, "messages": messages}],
        "delays": [{"upto": 2.0, "messages": messages}],
        "sessions": [session | {"messages": messages, "bytes": messages * 100}],
    }


@pytest.fixture(params=["light", "dark"])
def shown(browser: Browser, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Show a report at a width; whatever a page must not do fails the test."""
    context = browser.new_context(color_scheme=request.param)
    tab = context.new_page()

    def show(width: int, **tables: Any) -> Page:
        file = tmp_path / "report.html"
        file.write_text(page("orders", tables, NOON.timestamp()), encoding="utf-8")
        tab.set_viewport_size({"width": width, "height": 900})
        tab.goto(file.as_uri())
        return tab

    with Watch(tab):
        yield show
    context.close()


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("minutes", [1, 60])
def test_every_chart_is_drawn_and_nothing_is_cut_off(shown, width, minutes):
    tab = shown(width, **traffic(minutes, MANY, "eu.orders"))
    drawn = tab.evaluate(DRAWN)
    assert drawn == [True] * tab.locator(".chart").count() != []
    assert tab.evaluate(OVERFLOWING) == []
    assert tab.evaluate(CUT, ".figure") == []
    assert "12,345,678,901" in tab.locator(".figures").inner_text()


@pytest.mark.parametrize("width", [1440, 390])
def test_a_long_key_leaves_the_count_of_its_messages_in_sight(shown, width):
    tab = shown(width, **traffic(1, 3, LONG))
    for table in tab.locator("section > table").all():
        count = table.locator("tr:nth-child(2) td.n", has_text="3").first.bounding_box()
        assert count["x"] + count["width"] <= width


def test_nothing_is_a_page_without_charts(shown):
    tab = shown(390, totals=[{"messages": 0}])
    assert "no message" in tab.locator("main").inner_text()
    assert tab.evaluate(OVERFLOWING) == []
