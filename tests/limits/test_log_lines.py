"""Lines of the log that peers cause have budgets."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from leporid.limits.log_lines import (
    CONNECTION,
    KEYS_MAX,
    LOG_LINES,
    PEER,
    PEERS,
    PLACE,
    LogLines,
    caused_by,
    unbounded,
)
from leporid.limits.refusals import Refusals

logger = logging.getLogger("tests.peers")


class Log:
    """What was written, and a clock."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.lines = LogLines(lambda: self.now_s)
        self.lines.refusals = self.refusals = Refusals()
        self._text = io.StringIO()
        self.handler = logging.StreamHandler(self._text)
        self.handler.addFilter(self.lines)

    def write(self, count: int, connection: str, peer: object) -> int:
        """Write lines that a peer causes; returns how many came through."""
        for number in range(count):
            logger.info("%s: line %d", connection, number, extra=caused_by(connection, peer))
        return len(self.take())

    def take(self) -> list[str]:
        """What was written since the last call."""
        text = self._text.getvalue()
        self._text.seek(0)
        self._text.truncate()
        return text.splitlines()


@pytest.fixture
def log() -> Iterator[Log]:
    found = Log()
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.handlers[:] = [found.handler]
    root.setLevel(logging.INFO)
    yield found
    root.handlers[:] = handlers
    root.setLevel(level)


def test_the_first_lines_of_a_connection_are_written_and_then_few(log):
    for number in range(CONNECTION.at_once):
        logger.info("%s", "x" * 5000, extra=caused_by("a", "user"))
        assert log.take() == ["x" * 5000], number
    assert log.write(1000, "a", "user") == 0
    log.now_s += 60
    assert log.write(1000, "a", "user") == 60 * CONNECTION.a_second


def test_a_connection_leaves_lines_to_others_of_its_user(log):
    assert log.write(1000, "a", "user") == CONNECTION.at_once
    assert log.write(1, "b", "user") == 1


def test_who_connects_again_has_no_new_budget(log):
    written = sum(log.write(10, f"connection {number}", "user") for number in range(100))
    assert written == PEER.at_once
    assert log.write(1, "another", "another user") == 1


def test_many_addresses_have_one_budget_together(log):
    written = sum(log.write(1, f"{number}", f"::{number:x}") for number in range(3 * PEERS.at_once))
    assert written == PEERS.at_once
    assert "keys=1000 " in repr(log.lines)


def test_any_other_line_has_the_budget_of_its_place(log):
    for _ in range(PLACE.at_once + 10):
        logger.warning("here")
    logger.warning("there")
    assert log.take() == ["here"] * PLACE.at_once + ["there"]


def test_what_is_left_out_is_counted_and_told_of(log):
    log.write(CONNECTION.at_once + 7, "a", "guest")
    log.write(CONNECTION.at_once + 5, "b", "spy\n")
    assert log.refusals.by_kind == {LOG_LINES: 12}
    log.lines.report()
    (line,) = log.take()
    assert line.startswith("12 lines were left out")
    assert "7 of 'guest', 5 of 'spy\\n'" in line
    log.lines.report()
    assert log.take() == []


def test_one_line_tells_of_any_number_of_peers(log):
    for number in range(KEYS_MAX * 3):
        log.write(CONNECTION.at_once + 1, f"{number}", f"::{number:x}")
    log.lines.report()
    (line,) = log.take()
    assert len(line) < 500
    assert "and others; they came from " in line


def test_the_lines_that_are_left_out_are_told_by_their_place_and_beginning(log):
    for number in range(PLACE.at_once + 7):
        logger.warning("here, line %d\n%s", number, "x" * 100)
    log.write(CONNECTION.at_once + 3, "a", "guest")
    log.take()
    log.lines.report()
    (line,) = log.take()
    here, peers = line.partition("they came from ")[2].split("), tests.peers, line ")
    assert here.startswith("tests.peers, line ")
    assert here.endswith(f" (7, the first 'here, line 1000\\n{'x' * 44}...'")
    assert peers.endswith(" (3, the first 'a: line 20')")


def test_one_line_tells_of_the_places_with_most_lines(log):
    for count in range(10):
        for _ in range(PLACE.at_once + 1 + count):
            record = logger.makeRecord("x", logging.INFO, "f", count, f"{count}, %d", (), None)
            logger.handle(record)
    log.take()
    log.lines.report()
    (line,) = log.take()
    told = [f"x, line {at} ({at + 1}, the first '{at}, %d')" for at in (9, 8, 7)]
    assert line.endswith(f"they came from {', '.join(told)}, and others")


def test_lines_without_a_budget_are_all_written(log):
    for _ in range(2 * PEERS.at_once):
        logger.info("x", extra=unbounded())
        assert log.take() == ["x"]
