"""Readiness: which peers have sent something that can be read.

Responsible for asking the operating system, and for telling the links, as many in a round of the
loop as there is time for. It must not know what is read. Invariant: a socket that is watched, and
can be read, is told of in this round or in a later one, however many there are.

One `epoll` object watches all of them, beside the loop's own. The loop's would tell of up to 49,152
sockets before anything else had its turn, such as of ten thousand peers that leave at once: others
waited a second. Where there is no `epoll`, the loop is asked.

A socket whose party has had its part of the round is not watched until it is told of again, in the
line of its party: else the system would tell of all of them in each round, 2 microseconds each.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from leporid.engine.bounds.clock import Clock, Party

# Sockets asked for at a time, and how often in a round.
EVENTS_MAX: Final = 256
ASKED_MAX: Final = 3
AVAILABLE: Final = hasattr(select, "epoll")

_Lines = OrderedDict[Party | None, OrderedDict[Party | None, OrderedDict[int, None]]]


def _whole(party: Party | None) -> Party | None:
    """With whom a party has its part of a round: its group, or itself."""
    return party if party is None or party.group is None else party.group


class Readiness:
    """Watches the sockets of links; made, and used, on a running loop.

    Args:
        clock: the engine's, whose stage of input says when a round has read enough.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: dict[int, Callable[[], None]] = {}
        # Found and not told of yet, the next one last: the system would begin with others.
        self._ready: list[int] = []
        # Those that can be read although the system does not say so.
        self._held: dict[int, None] = {}
        # Those that are put off, in the lines of their parties, in the order of turns; the parties
        # of a group have a line together. They are not registered; the party of each.
        self._lines: _Lines = OrderedDict()
        self._put_off: dict[int, Party | None] = {}
        self._was_put_off = False
        self._tells_held = False
        # What a round tells of, in this order.
        self._kinds = deque((self._tell_held, self._tell_ready, self._tell_put_off))
        self._loop = asyncio.get_running_loop()
        self._epoll = select.epoll() if AVAILABLE else None
        if self._epoll is not None:
            self._loop.add_reader(self._epoll.fileno(), self._tell)

    def __repr__(self) -> str:
        return f"<Readiness sockets={len(self._told)}>"

    def watch(self, sock: socket.socket, told: Callable[[], None]) -> None:
        """Call `told` from now on, instead of what was called before, when it can be read.

        Also when the peer has ended its sending, or the connection: then a read says so. After
        `stop` it is not.
        """
        number = sock.fileno()
        if self._epoll is None:
            self._loop.add_reader(number, told)
        elif self._epoll.closed:
            return
        elif number not in self._told:  # those that are put off are, too
            self._epoll.register(number, select.EPOLLIN)
        self._told[number] = told

    def again(self, sock: socket.socket) -> None:
        """Tell of a socket once more, from the loop: some of what was received is not read."""
        self._held[sock.fileno()] = None
        self._tell_held_later()

    def put_off(self, sock: socket.socket, party: Party | None) -> None:
        """Tell of a socket once more when its party has a slice; it can still be read."""
        number = sock.fileno()
        if self._epoll is None or self._epoll.closed:
            self.again(sock)
            return
        if number not in self._put_off:
            self._epoll.unregister(number)
            self._put_off[number] = party
            self._was_put_off = True
            parties = self._lines.setdefault(_whole(party), OrderedDict())
            parties.setdefault(party, OrderedDict())[number] = None
        self._tell_held_later()

    def _take_back(self, number: int) -> bool:
        """Have a socket put off no more; False if it is not."""
        if number not in self._put_off:
            return False
        party = self._put_off.pop(number)
        parties = self._lines[_whole(party)]
        del parties[party][number]
        if not parties[party]:
            del parties[party]
        if not parties:
            del self._lines[_whole(party)]
        return True

    def _tell_put_off(self) -> None:
        """Tell of those that were put off, as long as their parties have slices of this round."""
        for whole in tuple(self._lines):
            # Who has used most of a group has used no more than the group.
            while whole in self._lines and self._clock.has_slice(whole):
                parties = self._lines[whole]
                party = next(iter(parties))
                number = next(iter(parties[party]))
                self._lines.move_to_end(whole)
                parties.move_to_end(party)
                self._take_back(number)
                assert self._epoll is not None
                self._epoll.register(number, select.EPOLLIN)
                self._told[number]()
            if self._clock.stage_is_over:
                return

    def _tell_held_later(self) -> None:
        if (self._held or self._lines) and not self._tells_held:
            self._tells_held = True
            self._loop.call_soon(self._tell_later)

    def _tell_later(self) -> None:
        self._tells_held = False
        self._tell()
        self._tell_held_later()

    def _tell(self) -> None:
        """Tell of all kinds as long as the clock allows; of the rest in the next round.

        Each kind can use up a round, or a party's part of it, and the others wait for two more at
        most: the one that rounds began with is last when time was up, or somebody was put off. It
        must not matter whether this is called before or after the turn that begins a round; before
        it there is no time, and nobody's turn is over.
        """
        had_time, self._was_put_off = not self._clock.stage_is_over, False
        for tell in tuple(self._kinds):
            if self._clock.stage_is_over:
                break
            tell()
        if had_time and (self._clock.stage_is_over or self._was_put_off):
            self._kinds.rotate(-1)

    def _tell_held(self) -> None:
        for number in tuple(self._held):
            if self._clock.stage_is_over:
                break
            del self._held[number]
            told = self._told.get(number)
            if told is not None:
                told()

    def forget(self, sock: socket.socket) -> None:
        """Watch it no more; before it is closed."""
        number = sock.fileno()
        self._held.pop(number, None)
        if self._told.pop(number, None) is None:
            return
        if self._epoll is None:
            self._loop.remove_reader(number)
        elif not self._take_back(number):
            self._epoll.unregister(number)

    def stop(self) -> None:
        """Watch nothing any more; a second time does nothing."""
        if self._epoll is not None and not self._epoll.closed:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._told.clear()
            self._held.clear()
            self._put_off.clear()
            self._lines.clear()

    def _tell_ready(self) -> None:
        """Tell of those of which the system says that they can be read."""
        if self._epoll is None or self._epoll.closed:
            return
        first = None
        for _ in range(ASKED_MAX):
            # With fewer, all that can be read were told of; each is told once in a round.
            last = False
            if not self._ready:
                events = self._epoll.poll(0, EVENTS_MAX)
                last = len(events) < EVENTS_MAX
                self._ready = [number for number, _ in reversed(events)]
            while self._ready:
                if self._clock.stage_is_over:
                    return
                number = self._ready.pop()
                if number == first:
                    return  # the system goes through them in turn: all were told of
                first = number if first is None else first
                # One told before it may have closed another.
                told = self._told.get(number)
                if told is not None:
                    told()
            if last:
                return
