"""Turns of the event loop: read what came, let the data plane work, send what it made.

Responsible for the order of these three, so that everything that arrives together is handled
together and leaves in one write per connection. It does not know what the bytes mean.

Invariant: whenever the data plane was given something, `turn` runs once before the loop waits
for the network again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from leporid.engine.bounds.lines import Lines
from leporid.engine.engine import Engine
from leporid.server.handshakes import Handshakes
from leporid.server.histograms import SECONDS, Histogram
from leporid.server.readiness import Readiness

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from leporid.engine.connection.connection import Connection
    from leporid.server.link import Link


# Of peers that were answered connection.close and have not closed their sockets, so many are kept;
# then the oldest goes. Each costs a descriptor and what an idle connection costs, a few KiB, for up
# to half a minute, and is counted nowhere. A thread that closes needs a moment for its answer.
AWAITING_EOF_MAX: Final = 1000
# How long a turn sends what connections have, and after how many of them the clock is read; each
# counts once more for so many bytes, of which a quarter of a megabyte may take 2 ms.
FLUSH_NS: Final = 1_000_000
UNITS_A_READING: Final = 16
BYTES_A_UNIT: Final = 16 * 1024
NS_A_MS: Final = 1_000_000


class Timed(Protocol):
    """Something with work that is due at some time, such as the broker's unused queues."""

    @property
    def next_due_ms(self) -> int:
        """When it is due; 0: never."""

    def run(self, now_ms: int, /) -> None:
        """Do what is due."""


class Turns:
    """Schedules the data plane's work on the loop.

    Attributes:
        after: called at the end of each turn (the durability looks whether to sync).
        timed: what else is due at some time, beside entries of queues.
        handshakes: those of the links whose peers have not logged in.
        readiness: says which links can be read.
        seconds: how long turns took, without reading what came.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.after: Callable[[], None] = lambda: None
        self.timed: list[Timed] = []
        self.readiness = Readiness(engine.clock)
        self.links: dict[Connection, Link] = {}
        self.handshakes: Handshakes[Link] = Handshakes()
        # Output that there was no time for.
        self._unsent: Lines[Link] = Lines()
        # Those whose peers only have to close the socket, the oldest first.
        self._awaiting_eof: dict[Link, None] = {}
        self._no_links = asyncio.Event()
        self._no_links.set()
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self.seconds = Histogram("How long a turn delivers, confirms and sends", SECONDS)
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        self.set_clock()
        engine.clock.monotonic_ns = time.monotonic_ns
        engine.jobs.on_defect = _log_defect
        engine.jobs.on_left = self.wake

    def stop(self) -> None:
        """Read nothing any more."""
        self.readiness.stop()

    def add(self, link: Link) -> None:
        """A link was made: its output is sent from now on."""
        self.links[link.connection] = link
        self._no_links.clear()

    def remove(self, link: Link) -> None:
        """It was closed."""
        self.links.pop(link.connection, None)
        self.handshakes.remove(link)
        if link.slot is not None:
            link.slot.release()
        self._awaiting_eof.pop(link, None)
        self._look_whether_any()

    def awaits_eof(self, link: Link) -> None:
        """Nothing is left to do for a link but to wait until its peer closes the socket."""
        if link in self._awaiting_eof:
            return
        self._awaiting_eof[link] = None
        if link.slot is not None:
            link.slot.release()
        self._look_whether_any()
        if len(self._awaiting_eof) > AWAITING_EOF_MAX:
            next(iter(self._awaiting_eof)).close()

    @property
    def entered(self) -> int:
        """How many links have logged in, but for those whose peers only have to close the socket.

        Costs a look at each of the latter, of which there are a thousand at most.
        """
        ended = sum(link not in self.handshakes for link in self._awaiting_eof)
        return len(self.links) - len(self.handshakes) - ended

    def _look_whether_any(self) -> None:
        if len(self.links) == len(self._awaiting_eof):
            self._no_links.set()

    def has_room(self, links_max: int) -> bool:
        """Say whether one more link may be made; a peer that has closed its connection makes room.

        Args:
            links_max: how many there may be, whatever they do.
        """
        if len(self.links) >= links_max and self._awaiting_eof:
            next(iter(self._awaiting_eof)).close()
        return len(self.links) < links_max

    async def without_links(self) -> None:
        """Return once the last link is gone, but for those whose peers are to close the socket."""
        await self._no_links.wait()

    def _set_alarm(self) -> None:
        """Have a turn when the next entry is due, although nothing may come until then."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._alarm_ms = self._next_due_ms()
        if self._alarm_ms:
            wait_ms = max(0, self._alarm_ms - int(time.monotonic() * 1000))
            self._alarm = self._loop.call_later(wait_ms / 1000, self._ring)

    def _next_due_ms(self) -> int:
        # In each turn: a loop takes a third of what a generator and `min` do.
        first_ms = self.engine.next_due_ms
        for each in self.timed:
            due_ms = each.next_due_ms
            if due_ms and (due_ms < first_ms or not first_ms):
                first_ms = due_ms
        return first_ms

    def _ring(self) -> None:
        self._alarm = None
        self._alarm_ms = 0
        self.turn()

    def set_clock(self) -> None:
        """Tell the engine what time it is; it never asks."""
        clock = self.engine.clock
        clock.now_ms = time.monotonic_ns() // NS_A_MS
        clock.wall_ms = time.time_ns() // NS_A_MS

    def wake(self) -> None:
        """Something was given to the engine."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.turn)

    def turn(self) -> None:
        """Deliver, confirm, send."""
        self._scheduled = False
        self.set_clock()
        began_s = time.monotonic()
        now_ms = self.engine.clock.now_ms
        for each in self.timed:
            if each.next_due_ms:
                each.run(now_ms)
        self.engine.run()
        self.flush()
        self.after()
        self.seconds.note(time.monotonic() - began_s)
        if self.engine.busy or self._unsent.count:
            self.wake()  # output drained while it was sent: more can be delivered
        elif self._next_due_ms() != self._alarm_ms:
            self._set_alarm()

    def flush(self) -> None:
        """Send the output of connections that have some, as many as there is time for.

        Parties take turns, so that nobody waits for all connections of another one.
        """
        for connection in self.engine.connections.take_touched():
            link = self.links.get(connection)
            if link is not None:
                self._unsent.add(connection.party, link)
        waiting = self._unsent.count
        if not waiting:
            return
        end_ns, units = time.monotonic_ns() + FLUSH_NS, 0
        for _ in range(waiting):
            units += 1 + self._unsent.take().flush() // BYTES_A_UNIT
            if units >= UNITS_A_READING:
                units = 0
                if time.monotonic_ns() >= end_ns:
                    return

    def send_later(self, link: Link) -> None:
        """The socket of a link has room: its output is sent when its party has a turn."""
        self._unsent.add(link.connection.party, link)
        self.wake()

    def resume_reading(self) -> None:
        """What stopped connections from being read may be over (an alarm)."""
        self.engine.jobs.start(self._resume_reading(list(self.links.values())))

    def _resume_reading(self, links: list[Link]) -> Iterator[None]:
        while links:
            links.pop().update_reading()
            yield


def _log_defect(error: Exception) -> None:
    logger.error("defect in work that went on for several turns", exc_info=error)
