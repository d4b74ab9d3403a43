"""A whole broker in this process, with a disk in memory, as the targets drive it.

Responsible for turns, time and the disk, and for noticing defects that the broker survives and only
logs. Must not know what is fed to it. Invariant: nothing here depends on a clock or on chance, so
that an input does the same each time.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.engine.disk_fake import Disk

from leporid.broker.access.access import Access, User, guest
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import Permissions
from leporid.broker.broker import Broker
from leporid.broker.policy.policies import make_policy
from leporid.broker.settings.unknown_arguments import OnUnknown
from leporid.durable import Change, Put, Together
from leporid.engine.engine import Engine
from leporid.filterserver.filter_class import FilterClass
from leporid.filterserver.frames import HEAD
from leporid.filterserver.message import messages_of
from leporid.storage.database import checksum

SECRET: Final = b"s" * 32
# Small, so that a short input fills several; a message that is larger gets a segment of its own.
SEGMENT_BYTES: Final = 16 * 1024
MESSAGE_BYTES_MAX: Final = 1024 * 1024
START_MS: Final = 1_000
START_WALL_MS: Final = 1_700_000_000_000


BATCH_MESSAGES: Final = 16
_SHORT: Final = {
    "max-length": 2,
    "overflow": "reject-publish",
    "dead-letter-exchange": "f",
    "message-ttl": 1000,
}


class Defect(AssertionError):
    """The broker did something that it never must."""


class _Defects(logging.Handler):
    """Notes what is logged as an error: a defect that the broker survived."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record)


def _check_row(change: Change) -> None:
    """What is recorded must fit into a row, or the next start would not know it."""
    if isinstance(change, Together):
        for each in change.changes:
            _check_row(each)
        return
    if isinstance(change, Put):
        values = change.definition.values()
        kinds = change.definition.types().values()
        assert all(isinstance(each, kind) for each, kind in zip(values, kinds, strict=True))
    else:
        values = change.identity
    for value in values:
        assert not isinstance(value, int) or -(2**63) <= value < 2**63
    checksum(values)


@contextmanager
def defects_raised() -> Iterator[None]:
    """Raise the first error that is logged meanwhile, once the block is through."""
    logger = logging.getLogger("leporid")
    defects = _Defects()
    level, propagate = logger.level, logger.propagate
    logger.addHandler(defects)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(defects)
        logger.setLevel(level)
        logger.propagate = propagate
    for record in defects.found:
        cause = record.exc_info[1] if record.exc_info else None
        raise Defect(record.getMessage()) from cause


class World:
    """A broker with users, a policy and a filter class.

    The user guest may do everything, reader may read `q`. Queues `r…` are short and refuse what is
    too much; the filter class `fc` lets every other message pass.
    """

    def __init__(self, *, unknown_arguments: OnUnknown = "warn") -> None:
        self.engine = Engine(
            7, durable_segment_bytes=SEGMENT_BYTES, transient_segment_bytes=SEGMENT_BYTES
        )
        self.engine.clock.now_ms = START_MS
        self.engine.clock.wall_ms = START_WALL_MS
        self.engine.connections.message_bytes_max = MESSAGE_BYTES_MAX
        self.disk = Disk()
        self.disk.attach(self.engine)
        self.numbers = itertools.count()
        reader = User(
            "reader",
            salted_sha256("reader", SECRET),
            permissions={"/": Permissions.of(read="^q$")},
        )
        self.broker = Broker(
            self.engine,
            Access([guest(SECRET), reader], SECRET),
            record=_check_row,
            random_bytes=lambda size: next(self.numbers).to_bytes(size, "big"),
            unknown_arguments=lambda _: unknown_arguments,
            identity={"product": "Leporid", "version": "0"},
            policies={"/": [make_policy("short", "^r", dict(_SHORT))]},
            filter_classes=[FilterClass("fc", 1, "Filter", b"class Filter: pass")],
        )
        self.vhost = self.broker.add_vhost("/")
        self.sync()

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass."""
        self.engine.clock.now_ms += duration_ms
        self.engine.clock.wall_ms += duration_ms

    def turn(self, flush: Callable[[], Any] = lambda: None) -> None:
        """Do what the server does in a turn, and have what was written on disk."""
        now_ms = self.engine.clock.now_ms
        self.broker.unused.run(now_ms)
        self.broker.cancels.run(now_ms)
        self.engine.run()
        flush()
        self._judge()
        self.sync()

    def _judge(self) -> None:
        """Give the verdicts that a filter class would, after reading what it would."""
        for asker in self.engine.verdicts.take():
            found = asker.batch(BATCH_MESSAGES, MESSAGE_BYTES_MAX)
            if found is None:
                continue
            batch, count = found
            messages = list(messages_of(batch[HEAD.size :]))
            assert len(messages) == count
            for message in messages:
                assert isinstance(message.properties.headers or {}, dict)
                assert message.headers is not None
            asker.judged(bytes(number % 2 for number in range(count)))
        self.broker.settle_verdict_queues()

    def sync(self) -> None:
        """Have everything on disk."""
        self.disk.sync(self.engine)
        self.broker.cancels.run(self.engine.clock.now_ms)

    def look_around(self) -> None:
        """Do what the server does once a second."""
        self.broker.save_reader_offsets()
        self.broker.look_at_groups()
