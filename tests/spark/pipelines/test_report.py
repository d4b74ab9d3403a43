import html.parser
from datetime import UTC, datetime, timedelta

import pytest

from leporid.spark.pipelines.report import delay, filled, page, size

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
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
    assert not {"script", "link", "img", "iframe"} & tags.seen
    assert not {"src", "href"} & {name for name, _ in tags.attributes}


def test_what_messages_say_is_escaped():
    text = page("<i>s</i>", found(key="<script>alert(1)</script>"), 0)
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "&lt;i&gt;s&lt;/i&gt;" in text


def test_a_stream_without_messages_has_a_page():
    assert "no message" in page("s", {"totals": [{"messages": 0}]}, 0)


def test_minutes_without_a_message_are_zero():
    rows = [FIGURES | {"minute": NOON + timedelta(minutes=at)} for at in (0, 1, 4)]
    assert [row["messages"] for row in filled(rows)] == [3, 3, 0, 0, 3]
    assert filled(rows)[3]["delay_ms_p50"] is None


def test_a_long_gap_is_drawn_by_its_ends():
    rows = [FIGURES | {"minute": NOON + timedelta(minutes=at)} for at in (0, 1, 1_000_000)]
    assert [row["messages"] for row in filled(rows)] == [3, 3, 0, 0, 3]


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
