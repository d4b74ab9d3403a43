"""`leporid top`."""

import io
import sys

from rich.console import Console

from leporid.cli.top import _drawn

ONCE = ("top", "--once", "--interval", "0.2")


def test_once(leporid, name, channel):
    many, few = name("top"), name("top")
    for queue, count in ((few, 10), (many, 11)):
        leporid("queues", "add", queue)
        for _ in range(count):
            channel.basic_publish("", queue, b"")
    found = leporid.json(*ONCE, "-c", "2", "-p", "/")
    assert [one["queue"] for one in found["queues"]] == [many, few]
    assert found["queues"][0]["ready"] == 11
    assert found["broker"]["product"] == "Leporid"
    lines = leporid(*ONCE, "-c", "1", "--by", "publish").splitlines()
    assert lines[1].startswith("vhost\tqueue\tready")
    drawn = io.StringIO()
    Console(file=drawn, width=200).print(_drawn(found))
    assert many in drawn.getvalue()
    for queue in (many, few):
        leporid("queues", "delete", queue, "--yes")


def test_a_live_picture_needs_rich(leporid, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.live", None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    leporid("top", code=1)
    assert "pip install 'leporid[cli]'; or --once" in leporid.error


def test_wrong_use(leporid):
    leporid("top", code=2)
    assert "give --once" in leporid.error
    leporid("top", "--once", "--interval", "0", code=2)
    leporid("top", "--once", "-c", "0", code=2)
