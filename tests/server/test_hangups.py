"""Hangups: what the operating system knows of peers that nobody reads."""

import asyncio
import itertools
import socket
import struct
from collections.abc import AsyncIterator

import pytest
from tests.server.client import PATIENCE_S

from leporid.server import hangups as module
from leporid.server.hangups import Hangups

pytestmark = pytest.mark.skipif(not module.AVAILABLE, reason="asks Linux")


@pytest.fixture
async def hangups() -> AsyncIterator[Hangups]:
    hangups = Hangups()
    yield hangups
    hangups.stop()


@pytest.fixture
async def pair() -> AsyncIterator[tuple[socket.socket, socket.socket]]:
    """A TCP connection: our end, and the peer's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    with peer, ours:
        yield ours, peer


class Told:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.found: asyncio.Queue[bool] = asyncio.Queue()

    def __call__(self, gone: bool) -> None:
        self.found.put_nowait(gone)

    async def next(self) -> bool:
        return await asyncio.wait_for(self.found.get(), PATIENCE_S)


async def test_the_end_is_told_although_nothing_was_read(
    hangups: Hangups, pair: tuple[socket.socket, socket.socket]
):
    ours, peer = pair
    told = Told()
    hangups.watch(ours, told)
    peer.sendall(bytes(1000))
    peer.shutdown(socket.SHUT_WR)
    assert not await told.next()
    assert ours.recv(2000) == bytes(1000)
    # Once: what is told again is that it is gone.
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    assert await told.next()
    assert told.found.empty()


async def test_an_end_from_before(hangups: Hangups, pair: tuple[socket.socket, socket.socket]):
    ours, peer = pair
    peer.close()
    told = Told()
    hangups.watch(ours, told)
    assert not await told.next()


async def test_who_is_forgotten_is_not_told_of(
    hangups: Hangups, pair: tuple[socket.socket, socket.socket]
):
    ours, peer = pair
    forgotten, other = Told(), Told()
    hangups.watch(ours, forgotten)
    hangups.forget(ours)
    hangups.forget(ours)
    peer.close()
    hangups.watch(ours, other)
    assert not await other.next()
    assert forgotten.found.empty()


async def test_many_that_end_at_once_leave_time_in_each_round(
    hangups: Hangups, monkeypatch: pytest.MonkeyPatch
):
    times = itertools.count(0, module.ENDS_NS // 3)
    monkeypatch.setattr("leporid.server.hangups.time.monotonic_ns", times.__next__)
    loop = asyncio.get_running_loop()
    told: list[bool] = []
    before: list[int] = []
    done = loop.create_future()

    def begin_round() -> None:
        before.append(len(told))
        if len(told) < 64:
            loop.call_soon(begin_round)
        else:
            done.set_result(None)

    pairs = [socket.socketpair() for _ in range(64)]
    for ours, theirs in pairs:
        hangups.watch(ours, told.append)
        theirs.close()
    begin_round()
    await asyncio.wait_for(done, PATIENCE_S)
    assert max(map(int.__sub__, before[1:], before)) <= 3 * module.EVENTS_MAX
    for ours, _ in pairs:
        hangups.forget(ours)
        ours.close()


async def test_one_that_is_told_of_may_end_the_others(hangups: Hangups):
    found = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        peers = [socket.create_connection(server.getsockname()) for _ in range(5)]
        ours = [server.accept()[0] for _ in range(5)]

    def end_all(_: bool) -> None:
        found.append(True)
        for sock in ours:
            hangups.forget(sock)
            sock.close()
        done.set_result(None)

    done = asyncio.get_running_loop().create_future()
    for sock in ours:
        hangups.watch(sock, end_all)
    for peer in peers:
        peer.close()
    await asyncio.wait_for(done, PATIENCE_S)
    assert found == [True]


async def test_after_the_stop_nobody_is_told(pair: tuple[socket.socket, socket.socket]):
    ours, peer = pair
    hangups, told = Hangups(), Told()
    hangups.watch(ours, told)
    hangups.stop()
    hangups.stop()
    hangups.forget(ours)
    peer.close()
    other = Hangups()
    later = Told()
    other.watch(ours, later)
    assert not await later.next()
    assert told.found.empty()
    other.stop()


async def test_where_the_system_cannot_tell(
    monkeypatch: pytest.MonkeyPatch, pair: tuple[socket.socket, socket.socket]
):
    monkeypatch.setattr(module, "AVAILABLE", False)
    hangups = Hangups()
    hangups.watch(pair[0], Told())
    hangups.forget(pair[0])
    hangups.stop()
