"""Readiness: who can be read is told of, and as many in a round as there is time for."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial
from typing import cast

import pytest
from tests.server.client import PATIENCE_S

from leporid.engine.bounds.clock import Clock, Party
from leporid.engine.engine import Engine
from leporid.server.readiness import AVAILABLE, EVENTS_MAX, Readiness

MANY = 600


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
async def readiness(engine: Engine) -> AsyncIterator[Readiness]:
    readiness = Readiness(engine.clock)
    yield readiness
    readiness.stop()


async def round_of_the_loop() -> None:
    """Return when the loop has asked the operating system once more."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    asked = asyncio.Event()
    with ours, theirs:
        loop.add_reader(ours, asked.set)
        theirs.send(b"x")
        async with asyncio.timeout(PATIENCE_S):
            await asked.wait()
        loop.remove_reader(ours)


async def test_each_is_told_until_it_is_read_and_none_that_is_forgotten(readiness: Readiness):
    told: list[str] = []
    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(3)]
        for name, (ours, theirs) in zip("abc", pairs, strict=True):
            stack.enter_context(ours)
            stack.enter_context(theirs)
            readiness.watch(ours, partial(told.append, name))
            theirs.send(b"x")
        readiness.forget(pairs[1][0])
        readiness.watch(pairs[2][0], lambda: told.append("instead of c"))
        while len(told) < 4:
            await round_of_the_loop()
        assert set(told) == {"a", "instead of c"}
        pairs[0][0].recv(1)
        told.clear()
        while len(told) < 3:
            await round_of_the_loop()
        assert "a" not in told
        for ours, _ in pairs:
            readiness.forget(ours)


async def test_the_end_of_a_peer_is_told(readiness: Readiness):
    ours, theirs = socket.socketpair()
    ended = asyncio.Event()
    with ours:
        readiness.watch(ours, ended.set)
        theirs.close()
        async with asyncio.timeout(PATIENCE_S):
            await ended.wait()
        readiness.forget(ours)


async def test_each_is_told_of_once_in_a_round(readiness: Readiness):
    told: list[int] = []
    before: list[int] = []

    def begin_round() -> None:
        before.append(len(told))
        asyncio.get_running_loop().call_soon(begin_round)

    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(MANY)]
        for number, (ours, theirs) in enumerate(pairs):
            stack.enter_context(ours)
            stack.enter_context(theirs)
            theirs.send(b"x")
            readiness.watch(ours, partial(told.append, number))
        begin_round()
        while len(told) < 5 * MANY:
            await round_of_the_loop()
        # In a later round it may be somebody else's turn first, whom a few of the last are before.
        assert max(map(int.__sub__, before[1:], before)) <= MANY + EVENTS_MAX
        for ours, _ in pairs:
            readiness.forget(ours)


@pytest.mark.skipif(not AVAILABLE, reason="the loop itself is asked")
async def test_a_round_ends_with_its_time_and_the_next_goes_on_with_others(
    engine: Engine, readiness: Readiness
):
    times = iter(range(0, 10**12, 500_000))
    engine.clock.monotonic_ns = times.__next__
    told: list[int] = []
    rounds: list[int] = []
    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(MANY)]

        def read(number: int) -> None:
            """Take half a millisecond, and leave everything unread."""
            engine.clock.over()
            told.append(number)

        for number, (ours, theirs) in enumerate(pairs):
            stack.enter_context(ours)
            stack.enter_context(theirs)
            theirs.send(b"x")
            readiness.watch(ours, partial(read, number))
        while len(set(told)) < MANY:
            before = len(told)
            engine.run()
            await round_of_the_loop()
            rounds.append(len(told) - before)
        assert max(rounds) < 20
        for ours, _ in pairs:
            readiness.forget(ours)


async def test_nobody_is_told_after_the_stop(readiness: Readiness):
    told: list[str] = []
    caught: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, facts: caught.append(facts))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        readiness.watch(ours, partial(told.append, "held"))
        readiness.again(ours)
        readiness.stop()
        await round_of_the_loop()
        readiness.forget(ours)
    assert told == caught == []


@pytest.mark.skipif(not AVAILABLE, reason="the loop itself is asked")
async def test_after_the_stop_nobody_is_watched(readiness: Readiness):
    told: list[str] = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"x")
        readiness.stop()
        readiness.watch(ours, partial(told.append, "late"))
        await round_of_the_loop()
        readiness.forget(ours)
    assert told == []


class Slices:
    """A clock that says which parties have a slice of the round."""

    def __init__(self) -> None:
        self.stage_is_over = False
        self.parties: set[object] = set()

    def has_slice(self, party: object) -> bool:
        return party in self.parties and not self.stage_is_over


@pytest.mark.skipif(not AVAILABLE, reason="the loop itself is asked")
async def test_what_is_put_off_is_told_of_when_its_party_has_a_slice():
    clock = Slices()
    readiness = Readiness(cast("Clock", clock))
    crowd, other = Party(), Party()
    passed: list[socket.socket] = []
    read: list[socket.socket] = []

    def on_readable(ours: socket.socket, party: Party) -> None:
        if clock.has_slice(party):
            read.append(ours)
            ours.recv(1)
        else:
            passed.append(ours)
            readiness.put_off(ours, party)

    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(4)]
        for (ours, theirs), party in zip(pairs, [crowd, crowd, crowd, other], strict=True):
            stack.enter_context(ours)
            stack.enter_context(theirs)
            theirs.send(b"x")
            readiness.watch(ours, partial(on_readable, ours, party))
        first, second, third, last = (ours for ours, _ in pairs)
        clock.parties = {other}
        for count in range(1, 6):
            while read.count(last) < count:
                await round_of_the_loop()
            pairs[3][1].send(b"x")
        assert set(passed) == {first, second, third}
        assert len(passed) == 3
        readiness.forget(second)
        clock.parties = {crowd}
        while not {first, third} <= set(read):
            await round_of_the_loop()
        for _, theirs in pairs:
            theirs.send(b"x")
        while read.count(first) < 2 or read.count(third) < 2:
            await round_of_the_loop()
        assert second not in read
        for ours in (first, third, last):
            readiness.forget(ours)
    readiness.stop()


@pytest.mark.skipif(not AVAILABLE, reason="the loop itself is asked")
async def test_parties_of_a_group_take_turns_although_only_its_part_is_used_up():
    """Whose socket was put off is not told of last for ever, if others can always be read."""
    clock = Slices()
    readiness = Readiness(cast("Clock", clock))
    group = Party()
    crowd, one = Party(group), Party(group)
    turns = asyncio.get_running_loop()
    read: list[Party] = []

    def on_readable(ours: socket.socket, party: Party) -> None:
        """Read, which takes the group's part; the round is not over."""
        if group in clock.parties:
            ours.recv(1)
            read.append(party)
            clock.parties.clear()
            turns.call_soon(clock.parties.add, group)
        else:
            readiness.put_off(ours, party)

    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(20)]
        for at, (ours, theirs) in enumerate(pairs):
            stack.enter_context(ours)
            stack.enter_context(theirs)
            readiness.watch(ours, partial(on_readable, ours, crowd if at else one))
            theirs.send(bytes(1000))
        clock.parties.add(group)
        while read.count(one) < 3:
            await round_of_the_loop()
        assert len(read) < 30
        for ours, _ in pairs:
            readiness.forget(ours)
    readiness.stop()


@pytest.mark.skipif(not AVAILABLE, reason="the loop itself is asked")
async def test_those_that_were_put_off_and_the_others_begin_rounds_by_turns():
    clock = Slices()
    readiness = Readiness(cast("Clock", clock))
    crowd, other = Party(), Party()
    read: list[Party] = []

    def on_readable(ours: socket.socket, party: Party) -> None:
        """Read, which takes all of the round."""
        if clock.has_slice(party):
            ours.recv(1)
            if not read:
                pairs[8][1].send(b"x")
            read.append(party)
            clock.stage_is_over = True
            asyncio.get_running_loop().call_soon(turn)
        else:
            readiness.put_off(ours, party)

    def turn() -> None:
        clock.stage_is_over = False

    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(9)]
        for at, (ours, theirs) in enumerate(pairs):
            stack.enter_context(ours)
            stack.enter_context(theirs)
            readiness.watch(ours, partial(on_readable, ours, other if at == 8 else crowd))
            if at < 8:
                theirs.send(b"x")
        await round_of_the_loop()
        assert read == []
        clock.parties = {crowd, other}
        while len(read) < 9:
            await round_of_the_loop()
        assert other in read[:3]
        assert read.count(crowd) == 8
        for ours, _ in pairs:
            readiness.forget(ours)
    readiness.stop()


@pytest.mark.skipif(not AVAILABLE, reason="the loop itself is asked")
@pytest.mark.parametrize("crowd_is", ["told of again", "ready"])
async def test_what_is_put_off_is_told_of_although_others_use_up_each_round(crowd_is: str):
    clock = Slices()
    readiness = Readiness(cast("Clock", clock))
    loop = asyncio.get_running_loop()
    party = Party()
    read: list[str] = []
    scheduled = False

    def wake() -> None:
        nonlocal scheduled
        if not scheduled:
            scheduled = True
            loop.call_soon(turn)

    def turn() -> None:
        nonlocal scheduled
        scheduled = clock.stage_is_over = False

    def on_crowd(ours: socket.socket) -> None:
        """Read some of what does not end, which takes all of the round."""
        read.append("crowd")
        clock.stage_is_over = True
        clock.parties.add(party)
        if crowd_is == "told of again":
            readiness.again(ours)
        wake()

    def on_other(ours: socket.socket) -> None:
        if clock.has_slice(party):
            ours.recv(1)
            read.append("other")
        else:
            readiness.put_off(ours, party)
            wake()

    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(2)]
        for (ours, theirs), told in zip(pairs, (on_other, on_crowd), strict=True):
            stack.enter_context(ours)
            stack.enter_context(theirs)
            readiness.watch(ours, partial(told, ours))
            theirs.send(b"x")
        while read.count("crowd") < 9:
            await round_of_the_loop()
        for ours, _ in pairs:
            readiness.forget(ours)
    readiness.stop()
    assert "other" in read[:4]
