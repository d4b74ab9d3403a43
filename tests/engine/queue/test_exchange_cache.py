"""What an exchange remembers: as many, for as long, and through restarts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.browsing import bodies
from tests.engine.disk_fake import Disk
from tests.engine.frames import Confirm, Returned, longstr, properties, publish, table
from tests.engine.restarts import Broker
from tests.engine.session_fake import Peer, make_engine

from leporid.engine.engine import Engine
from leporid.engine.queue.exchange_cache import ExchangeCache
from leporid.engine.queue.queue import Queue

HEADER = "x-deduplication-header"


def raw(
    key: str | None, *, mode: int = 2, ttl_ms: int | None = None, expiration: str | None = None
) -> bytes:
    fields = {} if key is None else {HEADER: longstr(key)}
    if ttl_ms is not None:
        fields["x-cache-ttl"] = b"l" + ttl_ms.to_bytes(8, "big", signed=True)
    return properties(headers=table(**fields), delivery_mode=mode, expiration=expiration)


class World(Broker):
    """An exchange x that remembers, with a queue q behind it, and o for what it does not take."""

    size = 5
    ttl_ms: int | None = None
    alternate = False

    def declare(self, engine: Engine) -> None:
        super().declare(engine)
        cache = engine.cache(9, "x", True, size=self.size, ttl_ms=self.ttl_ms)
        assert isinstance(cache, ExchangeCache)
        self.cache = cache

    def open(self, engine: Engine) -> None:
        super().open(engine)
        self.bound: list[Queue] = [self.queues["q"]]
        self.peer.session.caches["x"] = engine.route_cache("x", self.resolve, False)
        self.peer.session.copies = self.copies  # type: ignore[method-assign]

    def resolve(self, key: str, properties_: bytes | None) -> Sequence[Queue]:
        """As the control plane routes."""
        assert properties_ is not None
        known = [self.cache] if HEADER.encode() in properties_ else []
        if self.cache.has(properties_):
            return [*([self.queues["o"]] if self.alternate else []), *known]
        return [*self.bound, *known]

    def copies(self, cache: object, exchange: str, keys: list[str], raw: bytes) -> list[Queue]:
        assert exchange == "x"
        return list(self.resolve(keys[0], raw))

    def to_x(
        self,
        key: str | None,
        body: bytes,
        channel: int = 1,
        *,
        mode: int = 2,
        ttl_ms: int | None = None,
        mandatory: bool = False,
    ) -> None:
        properties_ = raw(key, mode=mode, ttl_ms=ttl_ms)
        self.peer.feed(
            publish(channel, "k", body, raw=properties_, exchange="x", mandatory=mandatory)
        )

    def there(self) -> list[bytes]:
        return bodies(self.queues["q"])


@pytest.fixture
def world() -> World:
    return World(names="qo")


def test_what_came_before_is_not_routed_even_when_it_has_left_its_queue(world: World):
    world.to_x("a", b"1")
    world.peer.drain(world.queues["q"])
    world.to_x("a", b"2")
    world.to_x("b", b"3")
    world.to_x(None, b"4")
    world.to_x(None, b"5")
    assert world.there() == [b"3", b"4", b"5"]
    assert world.cache.known == 2


def test_the_oldest_is_forgotten_when_there_are_too_many(world: World):
    for key in "abcdef":
        world.to_x(key, key.encode())
    assert world.cache.known == 5
    world.to_x("b", b"known")
    world.to_x("a", b"again")
    assert world.there() == [b"a", b"b", b"c", b"d", b"e", b"f", b"again"]
    world.to_x("b", b"forgotten now")
    assert world.there()[-1] == b"forgotten now"


def test_it_is_forgotten_when_its_time_is_over(world: World):
    world.cache.set_cache(100, 1000)
    world.to_x("a", b"1")
    world.to_x("b", b"1b", ttl_ms=5000)
    world.to_x("c", b"1c", ttl_ms=0)
    world.engine.clock.now_ms += 999
    world.to_x("a", b"2")
    assert world.there() == [b"1", b"1b", b"1c"]
    world.to_x("c", b"2c")
    world.engine.clock.now_ms += 1  # its timer has not rung yet
    world.to_x("a", b"3")
    world.to_x("b", b"3b")
    world.engine.run()
    assert world.there() == [b"1", b"1b", b"1c", b"2c", b"3"]
    world.engine.clock.now_ms += 4000
    world.engine.run()
    assert (world.cache.known, world.engine.queues.expired) == (0, 0)


def test_how_long_a_message_lives_is_not_how_long_it_is_remembered(world: World):
    world.peer.feed(publish(1, "k", b"1", raw=raw("a", expiration="10"), exchange="x"))
    world.engine.clock.now_ms += 10
    world.engine.run()
    assert world.there() == []
    world.to_x("a", b"2")
    assert world.there() == []


def test_duplicates_are_confirmed_not_returned_and_go_to_the_alternate_exchange(world: World):
    world.peer.channel.select_confirm()
    world.to_x("a", b"1")
    world.to_x("a", b"2", mandatory=True)
    world.alternate = True
    world.to_x("a", b"3", mandatory=True)
    world.disk.sync(world.engine)
    events = world.peer.events()
    assert not any(isinstance(event, Returned) for event in events)
    assert [event.tag for event in events if isinstance(event, Confirm)][-1] == 3
    assert world.engine.queues.unroutable == 0
    assert (world.there(), bodies(world.queues["o"])) == ([b"1"], [b"3"])


def test_what_no_queue_took_is_not_remembered(world: World):
    world.bound = []
    world.to_x("a", b"1", mandatory=True)
    assert any(isinstance(event, Returned) for event in world.peer.events())
    world.bound = [world.queues["q"]]
    world.to_x("a", b"2")
    assert world.there() == [b"2"]


def test_what_a_queue_refused_is_not_remembered(world: World):
    full, other = world.queues["q"], world.queues["o"]
    full.set_limits(max_length=1, overflow="reject-publish")
    world.bound = [full, other]
    world.peer.channel.select_confirm()
    world.to_x("a", b"1")
    world.to_x("b", b"2")
    world.disk.sync(world.engine)
    confirms = [event for event in world.peer.events() if isinstance(event, Confirm)]
    assert [event.refused for event in confirms] == [False, True]
    world.peer.drain(full)
    world.to_x("b", b"2 again")
    assert bodies(full) == [b"2 again"]
    assert bodies(other) == [b"1", b"2", b"2 again"]


def test_a_transaction_counts_when_it_is_committed(world: World):
    tx = world.peer.channels[2]
    tx.select_tx()
    world.to_x("a", b"in tx", channel=2)
    world.to_x("a", b"twice in tx", channel=2)
    world.to_x("b", b"b in tx", channel=2)
    assert world.cache.known == 0
    world.to_x("b", b"b before")
    tx.commit()
    assert world.there() == [b"b before", b"in tx"]
    world.to_x("c", b"never", channel=2)
    tx.rollback()
    world.to_x("c", b"c")
    assert world.there() == [b"b before", b"in tx", b"c"]
    world.to_x("c", b"twice", channel=2)
    tx.commit()
    assert world.there()[-1] == b"c"


def test_what_a_transaction_brought_to_no_queue_may_come_again(world: World):
    unique = world.queues["q"] = world.engine.unique_queue(0, "q", False)
    world.bound = [unique]
    tx = world.peer.channels[2]
    tx.select_tx()
    world.peer.feed(publish(2, "q", b"1", raw=raw("a")))
    world.to_x("a", b"in the queue already", channel=2)
    tx.commit()
    assert world.peer.drain(unique) == [b"1"]
    assert not world.cache.has(raw("a"))
    world.to_x("a", b"2")
    assert world.there() == [b"2"]


def test_a_transaction_of_duplicates_waits_until_the_first_is_on_disk(world: World):
    world.to_x("a", b"1")
    tx = world.peer.channels[2]
    tx.select_tx()
    world.to_x("a", b"2", channel=2, mandatory=True)
    assert tx.commit() == world.engine.logs.generation
    assert not any(isinstance(event, Returned) for event in world.peer.events())
    assert world.there() == [b"1"]


def test_a_large_transaction_is_whole_after_a_crash_although_much_is_forgotten_for_it():
    world = World(names="qo", segment_bytes=65536)
    tx = world.peer.channels[2]
    tx.select_tx()
    for number in range(200):
        world.to_x(f"k{number}", b"%d" % number)
    world.engine.run()
    for number in range(200, 500):
        world.to_x(f"k{number}", b"%d" % number, channel=2)
    tx.commit()
    world.disk.sync(world.engine)
    world.restart()
    world.engine.run()
    assert world.there() == [b"%d" % number for number in range(500)]
    assert [number for number in range(500) if world.cache.has(raw(f"k{number}"))] == [
        *range(495, 500)
    ]


@pytest.mark.parametrize("orderly", [True, False])
def test_it_is_known_after_a_restart(world: World, orderly: bool):
    world.cache.set_cache(5, None)
    for number in range(8):
        world.to_x(f"k{number}", b"%d" % number)
    world.to_x("t", b"transient", mode=1)
    world.peer.drain(world.queues["q"])
    world.engine.run()
    world.disk.sync(world.engine)
    world.stop() if orderly else world.restart()
    assert world.cache.known == 4  # the transient one took a place
    for number in range(4, 8):
        world.to_x(f"k{number}", b"again %d" % number)
    world.to_x("k0", b"forgotten before")
    world.to_x("t", b"new")
    assert world.there() == [b"forgotten before", b"new"]


def test_time_goes_on_while_nobody_runs(world: World):
    World.ttl_ms = 1000
    try:
        world.cache.set_cache(5, 1000)
        world.to_x("a", b"1")
        world.engine.clock.wall_ms += 600
        world.engine.clock.now_ms += 600
        world.to_x("b", b"2")
        world.disk.sync(world.engine)
        world.restart()
        # The engine that came back began at the same wall time as the first.
        world.engine.clock.now_ms += 999
        world.to_x("a", b"known")
        world.engine.clock.now_ms += 1
        world.to_x("a", b"3")
        assert world.there() == [b"1", b"2", b"3"]
    finally:
        World.ttl_ms = None


def test_a_crash_keeps_the_message_and_its_memory_or_neither(world: World):
    for number in range(20):
        world.to_x(f"k{number}", b"%d" % number)
    assert world.disk.begin(world.engine)
    assert world.disk.job is not None
    total = sum(len(data) for *_, data in world.disk.job[1])
    disk = world.disk
    for cut in range(0, total, 97):
        world.restart(disk.crashed(total - cut))
        world.engine.run()
        found = {int(body) for body in world.there()}
        newest = sorted(found)[-world.size :]
        for number in range(20):
            assert world.cache.has(raw(f"k{number}")) == (number in newest)


def test_bodies_are_not_kept_for_the_sake_of_the_memory(world: World):
    world.cache.set_cache(1000, None)
    for number in range(300):
        world.to_x(f"k{number}", bytes(1000))
        world.peer.get(world.queues["q"])
    world.disk.settle(world.engine)
    assert world.cache.known == 300
    assert sum(segment.used for segment in world.engine.logs.segments) < 150_000
    world.restart()
    assert world.cache.known == 300
    assert world.cache.ready_bytes < 300_000
    world.to_x("k7", b"again")
    assert world.there() == []
    world.cache.retire()
    world.disk.settle(world.engine)
    assert len(world.engine.logs.segments) <= 2


def test_of_transient_messages_too():
    engine = make_engine(transient_segment_bytes=65536)
    disk = Disk()
    disk.attach(engine)
    queue = engine.queue(0, "q", False)
    cache = engine.cache(0, "x", False, size=100_000, ttl_ms=None)
    peer = Peer(engine, {})
    peer.session.caches["x"] = engine.route_cache("x", lambda *_: [queue, cache], False)
    for number in range(5000):
        peer.feed(publish(1, "k", bytes(1000), raw=raw(f"k{number}", mode=1), exchange="x"))
        peer.get(queue)
        if number % 100 == 0:
            engine.clock.now_ms += 100
            engine.run()
    for _ in range(100):
        engine.clock.now_ms += 100
        engine.run()
    assert cache.known == 5000
    assert engine.logs.transient.bytes < 4_000_000


@settings(max_examples=40)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("send"), st.sampled_from("abcdefg")),
            st.tuples(st.just("send passing"), st.sampled_from("abcdefg")),
            st.tuples(st.just("time"), st.integers(1, 400)),
            st.tuples(st.just("restart"), st.booleans()),
            st.tuples(st.just("take"), st.none()),
        ),
        max_size=50,
    ),
    st.integers(1, 4),
    st.sampled_from([None, 500]),
)
def test_against_a_list(events, size, ttl_ms):
    class Sized(World):
        pass

    Sized.size, Sized.ttl_ms = size, ttl_ms
    world = Sized(names="qo")
    known: list[tuple[str, int, bool]] = []  # key, when it came, whether it lasts; oldest first
    there: list[tuple[bytes, bool]] = []
    for number, (what, value) in enumerate(events):
        wall = world.engine.clock.wall_ms
        known = [one for one in known if ttl_ms is None or wall < one[1] + ttl_ms]
        if what.startswith("send"):
            lasts = what == "send"
            world.to_x(value, b"%d" % number, mode=2 if lasts else 1)
            if value not in {one[0] for one in known}:
                known = [*known, (value, wall, lasts)][-size:]
                there.append((b"%d" % number, lasts))
        elif what == "time":
            world.engine.clock.wall_ms += value
            world.engine.clock.now_ms += value
            world.engine.run()
        elif what == "take":
            world.peer.get(world.queues["q"])
            there = there[1:]
        else:
            world.engine.run()
            world.disk.sync(world.engine)
            world.stop() if value else world.restart()
            known = [one for one in known if one[2]]
            if world.engine.clock.wall_ms != wall:  # clocks of an engine begin at the same moment
                there, known = [one for one in there if one[1]], []
                break
            there = [one for one in there if one[1]]
        assert world.there() == [body for body, _ in there]
