"""Listening: peers are accepted by address in turn, and a port belongs to one broker."""

import asyncio
import ctypes
import errno
import itertools
import logging
import resource
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from leporid.server import listening
from leporid.server.addresses import bind
from leporid.server.listening import LINE_BITS_MAX, ListeningSockets, lines_of

MANY = "127.0.0.1"
LINES = 1 << LINE_BITS_MAX
OTHERS = [f"127.0.1.{number}" for number in range(1, 17)]

RETURN_0 = struct.pack("=HBBI", 0x06, 0, 0, 0)


def system_chooses() -> bool:
    """Whether this system takes a program that chooses among sockets (Linux since 4.5)."""
    program = ctypes.create_string_buffer(RETURN_0)
    head = struct.pack("@HP", 1, ctypes.addressof(program))
    with socket.socket() as probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            probe.setsockopt(socket.SOL_SOCKET, 51, head)
        except (AttributeError, OSError):
            return False
    return True


if_system_chooses = pytest.mark.skipif(
    not system_chooses(), reason="this system does not choose among sockets by a program"
)

Connect = Callable[[str], socket.socket]


@pytest.fixture
def bound() -> socket.socket:
    """A socket that the test or what it tests closes."""
    return bind([MANY], 0)[0]


@pytest.fixture
def connect(bound: socket.socket) -> Iterator[Connect]:
    with ExitStack() as stack:
        there = bound.getsockname()

        def connect(address: str) -> socket.socket:
            found = socket.create_connection(there, source_address=(address, 0))
            return stack.enter_context(found)

        yield connect


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not done():
            await asyncio.sleep(0)


def accepted_of(line: socket.socket) -> list[str]:
    """The addresses of the peers in a line, which are accepted and closed."""
    found: list[str] = []
    while True:
        try:
            peer, address = line.accept()
        except BlockingIOError:
            return found
        peer.close()
        found.append(address[0])


@if_system_chooses
def test_peers_of_one_address_stand_in_one_line_and_others_beside_it(bound, connect):
    lines = lines_of(bound)
    for address in (MANY, *OTHERS) * 3:
        connect(address)
    stood = [accepted_of(line) for line in lines]
    for line in lines:
        line.close()
    assert len(lines) == LINES
    assert sum(map(len, stood)) == 3 * (1 + len(OTHERS))
    for address in (MANY, *OTHERS):
        assert sum(address in line for line in stood) == 1
    assert sum(map(bool, stood)) > 1


@if_system_chooses
@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_peers_of_one_ipv6_network_stand_in_one_line():
    try:
        (bound,) = bind(["::1"], 0)
    except OSError as error:
        pytest.skip(f"IPv6 is switched off: {error}")
    lines = lines_of(bound)
    peers = [socket.create_connection(bound.getsockname()[:2]) for _ in range(20)]
    stood = [accepted_of(line) for line in lines]
    for each in (*lines, *peers):
        each.close()
    assert sorted(map(len, stood)) == [0] * (LINES - 1) + [20]


@if_system_chooses
async def test_who_comes_behind_hundreds_of_one_address_does_not_wait_for_them(bound, connect):
    accepted: list[str] = []

    def take(peer: socket.socket, address: tuple[str, int], port: socket.socket) -> None:
        assert port is bound
        peer.close()
        accepted.append(address[0])

    found = ListeningSockets([bound], take, "a peer")
    found.start()
    for _ in range(300):
        connect(MANY)
    for address in OTHERS:
        connect(address)
    await until(lambda: len(accepted) == 300 + len(OTHERS))
    found.stop()
    # Who stands in another line waits for one of each line before it, whoever is in front there.
    others = [at for at, address in enumerate(accepted) if address != MANY]
    assert sum(at < (1 + len(OTHERS)) * 2 for at in others) >= 4
    turns = accepted[: others[0] + 2 * len(OTHERS)]
    assert turns.count(MANY) >= 2


@pytest.mark.parametrize("a_round", [1, 100])
async def test_lines_have_turns_in_a_round_and_in_those_that_follow(monkeypatch, a_round):
    """Of two lines, here of two ports, neither is first in each round, nor emptied in one."""
    monkeypatch.setattr(listening, "SO_ATTACH_REUSEPORT_CBPF", -1)
    monkeypatch.setattr(listening, "ACCEPT_NS", a_round + 1)
    ticks = itertools.count()
    monkeypatch.setattr(listening, "time", SimpleNamespace(monotonic_ns=lambda: next(ticks)))
    ports = [*bind([MANY], 0), *bind([MANY], 0)]
    accepted: list[socket.socket] = []

    def take(peer: socket.socket, _address: object, port: socket.socket) -> None:
        peer.close()
        accepted.append(port)

    found = ListeningSockets(ports, take, "a peer")
    found.start()
    with ExitStack() as stack:
        for port in ports:
            for _ in range(20):
                stack.enter_context(socket.create_connection(port.getsockname()))
        await until(lambda: len(accepted) == 40)
    found.stop()
    assert abs(accepted[:10].count(ports[0]) - 5) <= 1


async def test_nobody_else_has_the_port(bound):
    found = ListeningSockets([bound], lambda *_: None, "a peer")
    found.start()
    port = bound.getsockname()[1]
    with pytest.raises(OSError, match="Address already in use"):
        bind([MANY], port)
    found.stop()
    bind([MANY], port)[0].close()


async def test_where_the_system_cannot_choose_all_stand_in_one_line(bound, connect, monkeypatch):
    monkeypatch.setattr(listening, "SO_ATTACH_REUSEPORT_CBPF", -1)
    accepted: list[socket.socket] = []
    found = ListeningSockets([bound], lambda peer, *_: accepted.append(peer), "a peer")
    found.start()
    for address in OTHERS:
        connect(address)
    await until(lambda: len(accepted) == len(OTHERS))
    other = socket.socket()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    with other, pytest.raises(OSError, match="Address already in use"):
        other.bind(bound.getsockname())
    found.stop()
    for each in accepted:
        each.close()


async def test_accepting_goes_on_when_there_are_descriptors_again(
    bound, connect, monkeypatch, caplog
):
    monkeypatch.setattr(listening, "ACCEPT_PAUSE_S", 0.01)
    accepted: list[socket.socket] = []
    found = ListeningSockets([bound], lambda peer, *_: accepted.append(peer), "a peer")
    found.start()
    connect(MANY)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The lowest descriptor that is free is the limit.
    with socket.socket() as probe:
        lowest = probe.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        await until(lambda: len(caplog.records) >= 2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await until(lambda: bool(accepted))
    found.stop()
    accepted[0].close()
    assert {each.getMessage() for each in caplog.records if each.levelno == logging.ERROR} == {
        f"cannot accept a peer: [Errno {errno.EMFILE}] Too many open files"
    }


async def test_who_comes_after_the_stop_is_refused(bound, connect):
    found = ListeningSockets([bound], lambda *_: None, "a peer")
    found.start()
    found.stop()
    found.stop()
    with pytest.raises(ConnectionRefusedError):
        connect(MANY)
