"""Samples of single objects: what is kept of them, and for how long."""

from __future__ import annotations

import pytest
from tests.management.conftest import World
from tests.management.queues import fill, queue_of

from leporid.broker.queue.dead_letters import DeadLetterKey
from leporid.broker.queue.queue import QueueState
from leporid.management import histories as module
from leporid.management.histories import COUNTERS, LAGS_MAX, Histories, Key, Ring, names_of


class Clocked:
    """Histories whose clock tests move."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.histories = Histories(lambda: self.now_ms)

    def pass_s(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now_ms += 1000
            for _ in self.histories.taking():
                pass


@pytest.fixture
def clocked() -> Clocked:
    return Clocked()


def declared(world: World, name: str = "jobs") -> QueueState:
    queue_of(world, name)
    return world.vhost.queue(name)


def test_a_ring_keeps_the_newest_rows():
    ring = Ring(1, 3, 2)
    assert ring.is_due(0)
    for at in range(5):
        ring.add(at * 1000, (at, -at))
    assert (len(ring), ring.row(-1), ring.row(0)) == (3, [4000, 4, -4], [2000, 2, -2])
    assert ring.column(0) == [2000, 3000, 4000]
    assert ring.column(2) == [-2, -3, -4]
    assert [ring.is_due(at_ms) for at_ms in (4000, 4499, 4500)] == [False, False, True]


def test_a_queue(world: World, clocked: Clocked):
    queue = declared(world)
    history = clocked.histories.look(Key("queue", "/", "jobs"), queue, "ann")
    assert history.latest()["rates"] == dict.fromkeys(COUNTERS["queue"], 0.0)
    clocked.pass_s(10)
    fill(world, queue.engine, 20)
    queue.dead_lettered.add(DeadLetterKey("maxlen", "dlx", None), dropped=False)
    clocked.pass_s(1)
    latest = history.latest()
    assert (latest["messages"], latest["messages_ready"], latest["consumers"]) == (20, 20, 0)
    # Over five seconds, as RabbitMQ's rates.
    assert latest["rates"]["publish"] == 4.0
    assert latest["rates"]["dead_letters:maxlen"] == 0.2
    names = names_of("queue")
    column = history.rings[0].column(1 + names.index("messages"))
    assert column == [0] * 11 + [20]
    assert history.rings[0].column(0)[-1] == clocked.now_ms


def test_an_exchange(world: World, clocked: Clocked):
    exchange = world.vhost.exchange("")
    history = clocked.histories.look(Key("exchange", "/", ""), exchange, "ann")
    assert history.latest() == {"rates": {"publish_in": 0.0, "publish_out": 0.0}}


def test_a_stream_and_how_far_its_readers_are(world: World, clocked: Clocked):
    stream = world.stream()
    queue = world.vhost.queue("orders")
    history = clocked.histories.look(Key("stream", "/", "orders"), queue, "ann")
    clocked.pass_s(2)
    world.fill(stream, 10)
    world.vhost.set_reader_offset("orders", "late", 3)
    clocked.pass_s(2)
    latest = history.latest()
    assert (latest["messages"], latest["first"], latest["end"]) == (10, 0, 10)
    assert latest["bytes"] == stream.bytes > 0
    assert latest["lag:late"] == 6
    # A reader that came later: its series is as long as the others.
    assert history.lag_columns(0) == {"lag:late": [None, None, None, 6, 6]}
    assert history.lag_columns(1) == {}
    clocked.pass_s(10)
    assert history.lag_columns(1) == {"lag:late": [None, 6]}
    queue.reader_offsets.clear()
    clocked.pass_s(1)
    assert history.lag_columns(0) == {}


def test_readers_are_bounded(world: World, clocked: Clocked):
    world.fill(world.stream(), 3)
    queue = world.vhost.queue("orders")
    for number in range(LAGS_MAX + 5):
        queue.reader_offsets[f"r{number}"] = 0
    history = clocked.histories.look(Key("stream", "/", "orders"), queue, "ann")
    clocked.pass_s(2)
    assert len(history.lag_columns(0)) == LAGS_MAX


def test_rings_of_an_hour_and_a_day_are_further_apart(world: World, clocked: Clocked):
    history = clocked.histories.look(Key("queue", "/", "jobs"), declared(world), "ann")
    clocked.pass_s(700)
    assert [len(ring) for ring in history.rings] == [61, 71, 3]


def test_a_deleted_object_is_sampled_no_more(world: World, clocked: Clocked):
    queue, key = declared(world), Key("queue", "/", "jobs")
    before = clocked.histories.look(key, queue, "ann")
    assert clocked.histories.look(key, queue, "ann") is before
    queue.deleted = True
    clocked.pass_s(1)
    assert len(clocked.histories) == 0
    # One of the same name is another one, even in the same second.
    other = declared(world, "other")
    again = clocked.histories.look(key, other, "ann")
    assert again is not before
    assert clocked.histories.look(key, queue, "ann") is not again


def test_many_objects_are_sampled_in_several_turns(
    world: World, clocked: Clocked, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "STEP_SERIES", 3)
    queue = declared(world)
    kept = [clocked.histories.look(Key("queue", "/", str(at)), queue, "guest") for at in range(7)]
    clocked.now_ms += 1000
    steps = clocked.histories.taking()
    for done in (3, 6):
        next(steps)
        assert [len(each.rings[0]) for each in kept] == [2] * done + [1] * (7 - done)
    assert list(steps) == []
    assert {len(each.rings[0]) for each in kept} == {2}


def test_what_was_looked_at_least_recently_goes(
    world: World, clocked: Clocked, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "OBJECTS_MAX", 2)
    queue = declared(world)
    first, second, third = (Key("queue", "/", name) for name in "abc")
    kept = clocked.histories.look(first, queue, "ann")
    gone = clocked.histories.look(second, queue, "ann")
    assert clocked.histories.look(first, queue, "ann") is kept
    clocked.pass_s(module.IN_VIEW_MS // 1000)
    assert clocked.histories.look(first, queue, "ann") is kept
    clocked.histories.look(third, queue, "ann")
    assert len(clocked.histories) == 2
    assert clocked.histories.look(first, queue, "ann") is kept
    assert clocked.histories.look(second, queue, "ann") is not gone
    assert repr(clocked.histories) == "<Histories of 2 objects>"


def test_a_list_ends_no_history_that_was_looked_at(
    world: World, clocked: Clocked, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "OBJECTS_MAX", 2)
    queues = {name: declared(world, name) for name in "abcd"}
    keys = {name: Key("queue", "/", name) for name in "abcd"}
    looked = clocked.histories.look(keys["a"], queues["a"], "ann")
    listed = {
        name: clocked.histories.glance(keys[name], queue, "bob") for name, queue in queues.items()
    }
    clocked.pass_s(3)
    # The first that finds room is sampled from then on, the others at this moment only.
    assert [len(listed[name].rings[0]) for name in "abcd"] == [4, 4, 1, 1]
    assert listed["a"] is looked
    # It makes room for one that somebody looks at.
    clocked.histories.look(keys["c"], queues["c"], "ann")
    assert clocked.histories.glance(keys["a"], queues["a"], "bob") is looked
    assert clocked.histories.glance(keys["b"], queues["b"], "bob") is not listed["b"]


def test_nobody_ends_what_another_one_looks_at(
    world: World, clocked: Clocked, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "OBJECTS_MAX", 4)
    queue, histories = declared(world), clocked.histories
    ours = [Key("queue", "/", name) for name in "ab"]
    theirs = [Key("queue", "/", str(number)) for number in range(10)]
    kept = [histories.look(key, queue, "ann") for key in ours[:1]]
    for _ in range(3):
        for key in theirs:
            # Without room it is shown as it is now.
            assert histories.look(key, queue, "bob").latest()["messages"] == 0
        assert histories.look(ours[0], queue, "ann") is kept[0]
        clocked.pass_s(1)
    assert len(histories) == 4
    # Somebody who has fewer gets one of those.
    kept.append(histories.look(ours[1], queue, "ann"))
    for key in theirs:
        histories.look(key, queue, "bob")
    assert [histories.look(key, queue, "ann") for key in ours] == kept
    assert len(histories) == 4
