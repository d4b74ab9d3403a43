"""Hangups: the ends of peers that are not read.

A socket that is not read tells nothing of its peer: the end of a stream is read like its bytes. The
operating system knows it all the same, and says so to who asks for nothing else.

Responsible for asking it, and for telling the links. It must not decide what an end means, nor know
AMQP. Invariant: a link that is watched is told once that its peer sends nothing more, and once that
the connection is gone, until it forgets.

One `epoll` object watches all of them, beside the loop's own: a loop asks to read or to write. It
costs nothing until something ends. Where there is no `epoll` nobody is told, and a peer that is not
read is missed when it is written to, or by the listener's clocks.
"""

from __future__ import annotations

import asyncio
import select
import socket
import time
from collections.abc import Callable
from typing import Final

# How long ends are told of in one turn of the loop, and after how many the clock is read: each may
# close a connection. The rest comes in the next turn. It is a part of the time for input, of which
# others must have some in each turn.
ENDS_NS: Final = 300_000
EVENTS_MAX: Final = 2
AVAILABLE: Final = hasattr(select, "epoll")

Told = Callable[[bool], None]


class Hangups:
    """Watches sockets for their peers' ends; made, and used, on a running loop."""

    def __init__(self) -> None:
        self._told: dict[int, Told] = {}
        self._loop = asyncio.get_running_loop()
        self._epoll = select.epoll() if AVAILABLE else None
        if self._epoll is not None:
            self._loop.add_reader(self._epoll.fileno(), self._on_ends)

    def watch(self, sock: socket.socket, told: Told) -> None:
        """Call `told(gone)` when the peer has ended its sending, or (`gone`) the connection.

        It may be called at once when that has happened before, from the loop and not from here.
        """
        if self._epoll is not None:
            self._epoll.register(sock, select.EPOLLRDHUP | select.EPOLLET)
            self._told[sock.fileno()] = told

    def forget(self, sock: socket.socket) -> None:
        """Watch it no more; before it is closed."""
        if self._told.pop(sock.fileno(), None) is not None:
            assert self._epoll is not None
            self._epoll.unregister(sock)

    def stop(self) -> None:
        """Watch nobody any more; a second time does nothing."""
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None
        self._told.clear()

    def _on_ends(self) -> None:
        end_ns = time.monotonic_ns() + ENDS_NS
        found = EVENTS_MAX
        while found == EVENTS_MAX and self._epoll is not None and time.monotonic_ns() < end_ns:
            ended = self._epoll.poll(0, EVENTS_MAX)
            found = len(ended)
            for descriptor, events in ended:
                # One told before it may have closed another.
                told = self._told.get(descriptor)
                if told is not None:
                    told(bool(events & (select.EPOLLHUP | select.EPOLLERR)))
