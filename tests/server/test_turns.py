"""Turns: one for all that came together, in time for what is due, and no longer for one than for
another."""

import asyncio
from contextlib import suppress
from itertools import count, pairwise
from typing import cast

import pytest
from tests.server.client import PATIENCE_S, published
from tests.server.stack import Clock, Stack

from leporid.amqp.methods import QueueDeclare, QueueDeclareOk
from leporid.engine.bounds.clock import Party
from leporid.engine.engine import Engine
from leporid.server import turns as turns_module
from leporid.server.link import SEND_BYTES, Link
from leporid.server.turns import Turns

TURN_BYTES = 64 * 1024


class OnlyConnection:
    """As much of a link as `Turns` looks at before there is output."""

    def __init__(self, engine: Engine) -> None:
        self.slot = None
        self.connection = engine.connection()


@pytest.fixture
async def turns() -> Turns:
    return Turns(Engine(1))


async def test_any_number_of_wakes_makes_one_turn(turns: Turns):
    numbers = count(1)
    ended = asyncio.Event()

    def after() -> None:
        if next(numbers) == 1:
            turns.wake()
            turns.wake()
        else:
            ended.set()

    turns.after = after
    turns.wake()
    turns.wake()
    await asyncio.wait_for(ended.wait(), PATIENCE_S)
    assert next(numbers) == 3


async def test_a_job_that_needs_more_turns_has_them_whoever_starts_it(turns: Turns):
    turns.engine.clock.monotonic_ns = count(0, 10**9).__next__
    ended = asyncio.Event()
    turns.engine.jobs.start(iter(range(5)), lambda _: ended.set())
    assert not ended.is_set()
    await asyncio.wait_for(ended.wait(), PATIENCE_S)


async def test_a_turn_tells_the_plane_the_time(clock: Clock, turns: Turns):
    assert turns.engine.clock.now_ms == 1_000_000
    clock.move(1.5)
    turns.turn()
    assert turns.engine.clock.now_ms == 1_001_500
    assert turns.engine.clock.wall_ms == 10**12 + 1_001_500


async def test_what_is_never_due_is_not_run_and_the_first_due_rings(clock: Clock, turns: Turns):
    class Timed:
        def __init__(self, due_ms: int) -> None:
            self.next_due_ms = due_ms
            self.ran_ms: list[int] = []

        def run(self, now_ms: int) -> None:
            self.ran_ms.append(now_ms)

    now_ms = turns.engine.clock.now_ms
    never, later, soon = Timed(0), Timed(now_ms + 10**6), Timed(now_ms + 10)
    turns.timed += [never, later, soon]
    turns.turn()
    assert (never.ran_ms, soon.ran_ms) == ([], [now_ms])
    rang = asyncio.Event()
    turns.after = rang.set
    await asyncio.wait_for(rang.wait(), PATIENCE_S)  # nothing came
    turns.timed.clear()


async def test_waiting_for_the_last_link(turns: Turns):
    await turns.without_links()
    links = [cast(Link, OnlyConnection(turns.engine)) for _ in range(2)]
    for link in links:
        turns.add(link)
    waiting = asyncio.ensure_future(turns.without_links())
    turns.remove(links[0])
    turns.remove(links[0])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(waiting), 0)
    turns.remove(links[1])
    await asyncio.wait_for(waiting, PATIENCE_S)
    assert turns.links == {}


async def test_output_of_one_party_keeps_another_one_from_nothing(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(turns_module, "FLUSH_NS", 0)
    sent: list[Link] = []
    many, one = Party(), Party()

    class WithOutput(OnlyConnection):
        def __init__(self, party: Party) -> None:
            super().__init__(turns.engine)
            self.connection.party = party
            turns.add(cast(Link, self))
            self.connection.send_heartbeat()

        def flush(self) -> int:
            sent.append(cast(Link, self))
            return 0

    links = [cast(Link, WithOutput(many)) for _ in range(100)]
    links.append(cast(Link, WithOutput(one)))
    turns.flush()
    assert links[-1] in sent[:2]
    assert len(sent) < len(links)
    while len(sent) < len(links):
        turns.turn()
    assert sent[0] is links[0]
    assert set(sent) == set(links)


async def test_large_output_ends_what_a_turn_sends(turns: Turns, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns_module, "FLUSH_NS", 0)
    sent: list[int] = []

    class WithMuch(OnlyConnection):
        def flush(self) -> int:
            sent.append(SEND_BYTES)
            return SEND_BYTES

    for _ in range(10):
        link = WithMuch(turns.engine)
        turns.add(cast(Link, link))
        link.connection.send_heartbeat()
    for turn in range(1, 11):
        turns.flush()
        assert len(sent) == turn


async def test_sockets_that_have_room_at_one_moment_are_written_to_turn_by_turn(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
):
    writer = await stack.client()
    readers = [await stack.client(receive_bytes=4096) for _ in range(8)]
    for number, reader in enumerate(readers):
        await reader.declare(f"q{number}")
        await reader.consume(f"q{number}")
        for _ in range(60):
            await writer.publish(f"q{number}", bytes(100_000))
    links = [stack.link_of(reader) for reader in readers]
    await stack.until(lambda: all(link.connection.output.pending_bytes > 0 for link in links))
    monkeypatch.setattr(turns_module, "FLUSH_NS", 0)
    monkeypatch.setattr(turns_module, "UNITS_A_READING", 1)
    flushed, in_turns = 0, []
    flush, after = Link.flush, stack.turns.after

    def counting(link: Link) -> int:
        nonlocal flushed
        flushed += 1
        return flush(link)

    def noting() -> None:
        in_turns.append(flushed)
        after()

    monkeypatch.setattr(Link, "flush", counting)
    stack.turns.after = noting
    for reader in readers:
        for _ in range(60):
            await reader.delivered()
    assert flushed > 2 * len(readers)
    assert max(later - earlier for earlier, later in pairwise(in_turns)) == 1


async def test_what_is_due_has_its_turn_although_nothing_comes():
    stack = Stack()  # with the real clock, and from here on without the listener's ticks
    client = await stack.client()
    stack.listener.stop()
    await client.declare("q")
    await client.write(published("q", b"short-lived", expiration="20"))
    await stack.until(lambda: stack.engine.queues.published == 1)
    await stack.until(lambda: stack.engine.queues.expired == 1)
    stack.stop()


async def test_a_backlog_is_delivered_turn_after_turn_although_nothing_comes():
    stack = Stack()
    client = await stack.client()
    stack.listener.stop()
    await client.declare("q")
    for _ in range(100):
        await client.publish("q", bytes(32 * 1024))
    await client.consume("q")
    for _ in range(100):
        await client.delivered()
    stack.stop()


async def test_a_flood_takes_no_more_than_its_turns(stack: Stack):
    flooding, other = await stack.client(), await stack.client()
    await other.declare("q")
    flood = stack.link_of(flooding).connection
    frames = published("nowhere", b"x" * 1000) * 500

    async def pour() -> None:
        while True:
            await flooding.write(frames)

    pouring = asyncio.create_task(pour())
    await stack.until(lambda: flood.received_bytes > 2**20)
    for _ in range(50):
        before = flood.received_bytes
        await other.call(QueueDeclare(queue="q", passive=True), QueueDeclareOk)
        # One turn in which the request is read, and those in which it and the answer travel.
        assert flood.received_bytes - before <= 4 * TURN_BYTES
    assert flood.received_bytes > 3 * 2**20
    pouring.cancel()
    with suppress(asyncio.CancelledError):
        await pouring


async def test_what_is_due_beside_the_plane_has_its_turn_too():
    stack = Stack()
    client = await stack.client()
    stack.listener.stop()
    declare = QueueDeclare(queue="q", arguments={"x-expires": 20})
    await client.call(declare, QueueDeclareOk)
    await stack.until(lambda: stack.broker.vhosts["/"].find_queue("q") is None)
    stack.stop()


async def test_a_queue_goes_unused_after_its_last_consumer_was_lost_although_nothing_comes():
    stack = Stack()
    client = await stack.client()
    declare = QueueDeclare(queue="q", arguments={"x-expires": 20})
    await client.call(declare, QueueDeclareOk)
    await client.consume("q")
    stack.listener.stop()
    client.close()
    await stack.turns.without_links()
    assert stack.broker.vhosts["/"].find_queue("q") is not None
    await stack.until(lambda: stack.broker.vhosts["/"].find_queue("q") is None)
    stack.stop()
