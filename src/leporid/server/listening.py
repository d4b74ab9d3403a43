"""Listening: sockets of one port, whose peers are accepted by address in turn.

The operating system has one line of peers for each listening socket, in the order in which they
came: behind a thousand connections of one address, any other waits until those were accepted. So
each port has several such sockets, and the system chooses among them by the peer's address.

Responsible for making these sockets, and for accepting for a bounded time in each round of the
loop. Must not know what is spoken on a connection, nor how many there may be. Invariants: a port is
first bound by a socket that shares it with none, so that two brokers never have the same; while
peers wait in several lines, one is accepted of each in turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import secrets
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from leporid.server.descriptors import descriptors, lines_max

logger = logging.getLogger(__name__)

# Peers that the system keeps in each line for us.
BACKLOG: Final = 1024
# Of each port at most, by bits of a number: fewer if many addresses are listened on.
LINE_BITS_MAX: Final = 4
# Of a round, for accepting: 40 peers on a slow machine.
ACCEPT_NS: Final = 1_000_000
# Out of file descriptors: accepting again at once would spin.
ACCEPT_PAUSE_S: Final = 0.2
# Of <asm-generic/socket.h>; `socket` does not have it.
SO_ATTACH_REUSEPORT_CBPF: Final = 51

# Instructions of classic BPF, of <linux/bpf_common.h>, and their form: code, two jumps, a value.
_LOAD_WORD, _KEEP, _MULTIPLY, _XOR_KEPT, _SHIFT_RIGHT, _RETURN = 0x20, 0x07, 0x24, 0xAC, 0x74, 0x16
_INSTRUCTION: Final = struct.Struct("=HBBI")
# Where the IP header of a packet begins; the address of its sender is 12 bytes behind that, or 8.
_HEADER: Final = -0x100000
_WORD_BITS: Final = 32

Address = tuple[Any, ...]
Accepted = Callable[[socket.socket, Address, socket.socket], None]


class ListeningSockets:
    """The listening sockets of one protocol.

    Args:
        bound: one socket for each port and address, not listening yet; `stop` closes them.
        accepted: called with a peer, its address, and the one of `bound` that it came to.
        what: a peer is for the log.
    """

    def __init__(self, bound: Sequence[socket.socket], accepted: Accepted, what: str) -> None:
        self._bound = bound
        self._accepted = accepted
        self._what = what
        self._loop = asyncio.get_running_loop()
        self._selector: selectors.DefaultSelector | None = None
        self._lines: list[socket.socket] = []
        # Which of the lines that have peers is asked first.
        self._first = 0

    def start(self) -> None:
        """Accept peers from now on; raises OSError if a socket cannot listen."""
        self._selector = selectors.DefaultSelector()
        count = lines_max(max(1, len(self._bound)), descriptors())
        for bound in self._bound:
            for line in lines_of(bound, min(LINE_BITS_MAX, count.bit_length() - 1)):
                self._lines.append(line)
                self._selector.register(line, selectors.EVENT_READ, bound)
        self._watch()

    def stop(self) -> None:
        """Accept no more, and refuse who tries; a second time does nothing."""
        if self._selector is not None:
            self._loop.remove_reader(self._selector)
            self._selector.close()
            self._selector = None
        for sock in (*self._bound, *self._lines):
            sock.close()

    def _watch(self) -> None:
        if self._selector is not None:
            # One object of the system that watches all lines, and is watched itself.
            self._loop.add_reader(self._selector, self._accept)

    def _accept(self) -> None:
        assert self._selector is not None
        end_ns = time.monotonic_ns() + ACCEPT_NS
        waiting = deque(key for key, _ in self._selector.select(0))
        self._first += 1
        waiting.rotate(-self._first)
        while waiting and time.monotonic_ns() < end_ns:
            key = waiting.popleft()
            line: Any = key.fileobj
            try:
                peer, address = line.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                continue
            except OSError as error:
                logger.error("cannot accept %s: %s", self._what, error)
                self._loop.remove_reader(self._selector)
                self._loop.call_later(ACCEPT_PAUSE_S, self._watch)
                return
            waiting.append(key)
            self._accepted(peer, address, key.data)


def lines_of(bound: socket.socket, bits: int = LINE_BITS_MAX) -> list[socket.socket]:
    """Have a bound socket listen, with others beside it among which the system chooses by address.

    Args:
        bound: not listening yet.
        bits: of the number of all of them.

    Returns:
        All of them, the given one first; it alone where the system cannot choose.

    Raises:
        OSError: a socket cannot listen.
    """
    lines = [bound]
    try:
        if bits:
            _choose_by_address(bound, bits)
        while len(lines) < 1 << bits:
            lines.append(_beside(bound))
    except (AttributeError, OSError) as error:
        logger.debug("all peers of a port stand in one line: %s", error)
        for line in lines[1:]:
            line.close()
        del lines[1:]
        # Else somebody else could have the same port, and a part of the peers.
        with contextlib.suppress(AttributeError, OSError):
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 0)
    for line in lines:
        line.listen(BACKLOG)
    return lines


def _beside(bound: socket.socket) -> socket.socket:
    """Return another socket of the same address."""
    line = socket.socket(bound.family, bound.type)
    try:
        line.setblocking(False)
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            line.setsockopt(socket.SOL_SOCKET, option, 1)
        if bound.family == socket.AF_INET6:
            line.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        line.bind(bound.getsockname())
    except OSError:
        line.close()
        raise
    return line


def _choose_by_address(bound: socket.socket, bits: int) -> None:
    """Have the system choose among the sockets that are going to listen on the same address.

    Raises:
        AttributeError, OSError: it cannot.
    """
    # The socket has been bound without this option, so nobody else has its port.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    program = b"".join(_line_of_peer(bound.family, bits))
    instructions = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("@HP", len(program) // _INSTRUCTION.size, ctypes.addressof(instructions))
    bound.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, head)


def _line_of_peer(family: int, bits: int) -> Iterator[bytes]:
    """Give the instructions that say in which line a peer is to stand.

    All of an IPv6 network of 64 bits stand in one, as such a network is one address to us
    (`limits.shares`). The number is a secret, so that nobody can choose to stand before another.
    """
    number = secrets.randbits(_WORD_BITS) | 1
    if family == socket.AF_INET6:
        yield _instruction(_LOAD_WORD, _HEADER + 8)
        yield _instruction(_KEEP)
        yield _instruction(_LOAD_WORD, _HEADER + 12)
        yield _instruction(_MULTIPLY, number)
        yield _instruction(_XOR_KEPT)
    else:
        yield _instruction(_LOAD_WORD, _HEADER + 12)
    yield _instruction(_MULTIPLY, number)
    # The highest bits depend on all bits of the address.
    yield _instruction(_SHIFT_RIGHT, _WORD_BITS - bits)
    yield _instruction(_RETURN)


def _instruction(code: int, value: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, 0, 0, value % (1 << _WORD_BITS))
