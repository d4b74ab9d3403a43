import hashlib
import html.parser
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from leporid.spark.pipelines.traffic_page import (
    delay,
    doubling,
    filled,
    interval_seconds,
    page,
    short,
    size,
    spoken,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
VENDOR = Path(__file__).parents[3] / "src" / "leporid" / "webui" / "vendor"
FIGURES = {
    "messages": 3,
    "bytes": 300,
    "bytes_mean": 100.0,
    "delay_ms_p50": None,
    "delay_ms_p99": None,
    "delay_ms_max": None,
}


def found(key="a.b", **more):
    total = FIGURES | {"keys": 1, "first": NOON, "last": NOON + timedelta(seconds=10)} | more
    return {
        "totals": [total],
        "minutes": [FIGURES | {"minute": NOON}],
        "keys": [FIGURES | {"exchange": "", "routing_key": key, "share": 1.0}],
        "sizes": [{"upto": 128, "messages": 3}],
        "delays": [],
        "sessions": [
            {"key": key, "started_at": NOON, "ended_at": NOON, "seconds": 0.0, "messages": 3,
             "bytes": 300}
        ],
    }  # fmt: skip


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []
        self.seen = set()
        self.attributes = []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing():
    tags = Tags()
    tags.feed(page("orders", found(), 1_767_225_600))
    assert tags.open == []
    assert not {"link", "img", "iframe"} & tags.seen
    assert not {"src", "href"} & {name for name, _ in tags.attributes}
    (policy,) = [value for _, value in tags.attributes if value and "default-src" in value]
    assert "default-src 'none'" in policy
    assert policy.count("sha256-") == 2


def data_of(text):
    return json.loads(text.split('id="data">')[1].split("</script>")[0])


def test_what_messages_say_is_escaped():
    text = page("<i>s</i>", found(key="<script>alert(1)</script>"), 0)
    assert "<script>alert" not in text
    assert "&lt;script&gt;" in text
    assert "&lt;i&gt;s&lt;/i&gt;" in text


def test_what_is_drawn_has_its_unit_and_all_classes():
    rows = found() | {
        "minutes": [
            FIGURES
            | {"minute": NOON + timedelta(minutes=at), "delay_ms_p50": 2.0, "delay_ms_max": 6000.0}
            for at in (0, 2)
        ],
        "sizes": [{"upto": 1, "messages": 2}, {"upto": 8, "messages": 1}],
        "delays": [{"upto": 0.5, "messages": 3}],
    }
    charts = {chart["id"]: chart for chart in data_of(page("s", rows, 0))}
    messages, volume, median, greatest, sizes, classes = charts.values()
    begin = NOON.timestamp()
    assert messages["x"] == [begin, begin + 60, begin + 120]
    assert messages["series"][0]["values"] == [3, 0, 3]
    assert (messages["unit"], volume["unit"], median["unit"]) == ("count", "bytes", "ms")
    assert sizes["labels"] == ["1 B", "2 B", "4 B", "8 B"]
    assert sizes["series"][0]["values"] == [2, 0, 0, 1]
    # Each has a scale of its own: a delay of a minute would leave nothing of milliseconds.
    assert [one["values"] for one in median["series"]] == [[2.0, None, 2.0]]
    assert [one["values"] for one in greatest["series"]] == [[6000.0, None, 6000.0]]
    assert classes["labels"] == ["0.5 ms"]


def test_what_draws_is_uplot_as_it_was_published():
    text = page("s", {"totals": [{"messages": 0}]}, 0)
    uplot = text[text.index("var uPlot") : text.index("</script>", text.index("var uPlot"))]
    published = "/*! https://github.com/leeoniya/uPlot (v1.6.32) */\n" + uplot
    digest = hashlib.sha256(published.encode()).hexdigest()
    assert f"`{digest}`" in (VENDOR / "README.md").read_text()
    assert "Leon Sorokin" in text


def test_a_stream_without_messages_has_a_page():
    assert "no message" in page("s", {"totals": [{"messages": 0}]}, 0)


def test_minutes_without_a_message_are_zero():
    rows = [FIGURES | {"minute": NOON + timedelta(minutes=at)} for at in (0, 1, 4)]
    assert [row["messages"] for row in filled(rows, 60)] == [3, 3, 0, 0, 3]
    assert filled(rows, 60)[3]["delay_ms_p50"] is None


def test_a_long_gap_is_drawn_by_its_ends():
    rows = [FIGURES | {"minute": NOON + timedelta(minutes=at)} for at in (0, 1, 1_000_000)]
    assert [row["messages"] for row in filled(rows, 60)] == [3, 3, 0, 0, 3]


def test_a_single_interval_is_a_peak():
    rows = filled([FIGURES | {"minute": NOON}], 5)
    assert [row["messages"] for row in rows] == [0, 3, 0]
    assert rows[2]["minute"] - rows[0]["minute"] == timedelta(seconds=10)


def test_classes_between_others_are_there():
    assert doubling([]) == []
    rows = doubling([{"upto": 0.5, "messages": 1}, {"upto": 4.0, "messages": 2}])
    assert [(row["upto"], row["messages"]) for row in rows] == [(0.5, 1), (1, 0), (2, 0), (4, 2)]


@pytest.mark.parametrize(
    ("span", "seconds"),
    [(0, 1), (60, 1), (600, 5), (3600, 30), (3601, 60), (86_400, 300), (10**9, 604_800)],
)
def test_intervals_suit_the_time_that_is_shown(span, seconds):
    assert interval_seconds(span) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "second"), (10, "10 seconds"), (60, "minute"), (90, "90 seconds"), (7200, "2 hours")],
)
def test_intervals_are_written_in_words(seconds, text):
    assert spoken(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (7.25, "7.25"), (999.7, "1000"), (1500, "1.5 k"), (2e7, "20 M"), (123456, "123 k")],
)
def test_numbers_are_short(number, text):
    assert short(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (5e13, "45.5 TiB"),
    ],
)
def test_sizes_are_for_people(number, text):
    assert size(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "–"), (0.5, "0.5 ms"), (999, "999 ms"), (1500, "1.5 s"), (6e5, "10 min")],
)
def test_delays_are_for_people(number, text):
    assert delay(number) == text
