"""The log: lines for people, objects for programs, and what peers cannot do to either."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from leporid.limits.log_lines import caused_by
from leporid.server.logs import LOG_FORMAT, JsonFormatter, OneLineFormatter
from leporid.testing import BrokerProcess


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.handler.setFormatter(OneLineFormatter(LOG_FORMAT))
    return caplog


FORGED = "2026-01-01 00:00:00,000 INFO leporid.broker.access.access: all is well"


@pytest.mark.parametrize(
    "end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x85", "\u2028", "\0", "\x1b[1A"]
)
def test_a_peer_cannot_write_log_lines(log: pytest.LogCaptureFixture, end: str):
    logging.getLogger("leporid").warning("no queue '%s'", f"q{end}{FORGED}")
    (line,) = log.text.splitlines()
    assert line.endswith(f"leporid: no queue 'q{ascii(end)[1:-1]}{FORGED}'")


def test_texts_in_the_log_stay_readable(log: pytest.LogCaptureFixture):
    logging.getLogger("leporid").warning("no queue 'Schnürsenkel \\n 靴紐'")
    assert log.text.endswith("leporid: no queue 'Schnürsenkel \\n 靴紐'\n")


def test_tracebacks_are_indented(log: pytest.LogCaptureFixture):
    try:
        raise ValueError(f"q\n{FORGED}\x1b[2K")
    except ValueError:
        logging.getLogger("leporid").exception("a defect", stack_info=True)
    first, *rest = log.text.split("\n")
    assert first.endswith("leporid: a defect")
    assert f"    {FORGED}\\x1b[2K" in rest
    assert rest.pop() == ""
    assert {line[:4] for line in rest} == {"    "}


def line_of(record: logging.LogRecord) -> dict[str, str]:
    text = JsonFormatter().format(record)
    assert text.isascii()
    assert text.isprintable()
    found: dict[str, str] = json.loads(text)
    return found


def record_of(text: str, *arguments: object, **extra: object) -> logging.LogRecord:
    record = logging.LogRecord("leporid.x", logging.WARNING, __file__, 1, text, arguments, None)
    record.created = 1_700_000_000.25
    record.__dict__.update(extra)
    return record


def test_a_line_of_json_has_time_level_logger_and_message():
    assert line_of(record_of("no queue '%s'", "Schnürsenkel\n\x1b[1A\u2028")) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "leporid.x",
        "message": "no queue 'Schnürsenkel\n\x1b[1A\u2028'",
    }


def test_a_line_of_json_says_who_caused_it():
    extra = caused_by("127.0.0.1:4000", "user ann", user="ann", vhost="shop")
    line = line_of(record_of("closed", **extra))
    assert (line["connection"], line["user"], line["vhost"]) == ("127.0.0.1:4000", "ann", "shop")
    stranger = line_of(record_of("closed", **caused_by("127.0.0.1:4000", "address 127.0.0.1")))
    assert stranger["connection"] == "127.0.0.1:4000"
    assert stranger.keys().isdisjoint({"user", "vhost"})


def test_a_traceback_is_a_field():
    try:
        raise ValueError("wrong")
    except ValueError:
        record = record_of("a defect", exc_info=sys.exc_info())
    assert "ValueError: wrong" in line_of(record)["traceback"]


SCRIPT = """
import logging
from leporid.server.logs import set_up
log = logging.getLogger("leporid")
set_up("info")
log.debug("one"); log.info("two")
set_up("debug", "json")
log.debug("three")
set_up("error")
log.warning("four"); log.error("five")
"""


def test_level_and_format_can_change():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    two, three, five = done.stderr.splitlines()
    assert two.endswith("INFO leporid: two")
    assert json.loads(three)["message"] == "three"
    assert five.endswith("ERROR leporid: five")


def test_acts_of_administrators_are_logged_at_every_level(tmp_path: Path):
    with BrokerProcess(tmp_path / "data", config='log_level = "error"') as broker:
        url = f"http://127.0.0.1:{broker.http_port}/api"
        made = httpx.put(f"{url}/vhosts/shop", auth=("guest", "guest"))
        assert made.status_code == 201
        broker.kill()
        # What was in memory is gone; the line is not.
        (line,) = broker.log_path.read_text().splitlines()
    assert "INFO leporid.audit: PUT /api/vhosts/shop by 'guest' from 127.0.0.1:" in line
    assert line.endswith(": 201")
