"""`leporid top`."""

import io
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from leporid.cli.top import _drawn

PATIENCE_S = 20
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


@contextmanager
def on_terminal(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run a command on a terminal of its own; gives it, and the terminal's other end."""
    end, terminal = pty.openpty()
    command = [str(Path(sys.executable).with_name("leporid")), *arguments]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    running = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    )
    os.close(terminal)
    try:
        yield running, end
    finally:
        running.kill()
        running.wait()
        os.close(end)


def until(end: int, *texts: bytes) -> bytes:
    """Return what a terminal shows until it shows all of these."""
    seen, deadline = b"", time.monotonic() + PATIENCE_S
    while not all(text in seen for text in texts):
        left = deadline - time.monotonic()
        assert select.select([end], [], [], max(0, left))[0], seen
        seen += os.read(end, 65536)
    return seen


@pytest.mark.slow
def test_a_live_picture_changes_until_ctrl_c(leporid, name, channel):
    queue = name("live")
    leporid("queues", "add", queue)
    with on_terminal("top", "--interval", "0.2", "-c", "10", "-p", "/") as (running, end):
        until(end, queue.encode())
        for _ in range(4321):
            channel.basic_publish("", queue, b"")
        until(end, queue.encode(), b"4321")
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == 0
    leporid("queues", "delete", queue, "--yes")


@pytest.mark.slow
def test_a_load_shows_one_line_on_a_terminal(leporid, shared_broker):
    given = ["-h", shared_broker.url, "-r", "100", "-z", "0.6", "-i", "0.1"]
    with on_terminal("bench", *given) as (running, end):
        seen = until(end, b'"latency_ms"', b"}\r\n")
        assert running.wait(PATIENCE_S) == 0
    line, _, found = seen.partition(b"{")
    assert line.count(b"\rtime ") > 1
    assert line.count(b"\n") == 1
    assert b'"sent"' in found


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
