"""Queues with much to do at once: each turn does some of it, and in the end all is as it should be.

A clock that ends a slice with every second reading decides where work is cut.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from tests.engine import frames
from tests.engine.session_fake import Peer
from tests.engine.slices import SOME, cut_often, ended, steps_of, turns

MANY = 2000


def fill(engine, queue, count=MANY, **properties):
    raw = frames.properties(**properties)
    for number in range(count):
        engine.publish([queue], "", "q", raw, b"%d" % number)


def hold(engine, queue, peer, delay_ms):
    """Fill the queue, and have all its messages come back after so long."""
    queue.set_retries("all", delay_ms, delay_ms)
    consumer = peer.channel.consume(queue, "c", False, 0, 0)
    fill(engine, queue)
    while queue.ready_count:
        peer.deliveries()
    peer.channel.cancel(consumer)
    ended(peer.channel.recovering())


def numbers(found):
    return [int(each.body) for each in found if isinstance(each, frames.Delivery)]


def test_a_long_queue_is_delivered_in_slices(engine, queue, peer):
    fill(engine, queue)
    peer.channel.consume(queue, "c", True, 0, 0)
    cut_often(engine)
    found = []
    for _ in turns(engine):
        new = numbers(peer.events(run=False))
        assert len(new) < SOME
        found += new
    assert found == list(range(MANY))


def test_large_messages_cost_more_of_a_slice(engine, queue, peer):
    body = b"x" * 40_000
    peers = [Peer(engine) for _ in range(100)]
    for each in peers:
        each.channel.consume(queue, "c", True, 0, 0)
    for _ in range(100):
        engine.publish([queue], "", "q", frames.NO_PROPERTIES, body)
    cut_often(engine)
    assert max(steps_of(engine, lambda: queue.delivered)) < SOME // 10
    assert queue.ready_count == 0


@pytest.mark.parametrize(("priorities", "entries_a_unit"), [(0, 8), (200, 1)])
def test_many_queues_cost_more_of_a_slice(engine, peer, priorities, entries_a_unit):
    queues = [engine.queue(0, f"{number}", False) for number in range(200)]
    for queue in queues if priorities else ():
        queue.set_priorities(priorities)
    peer.session.caches["fan"] = engine.route_cache("fan", lambda _key, _raw: queues, True)
    cut_often(engine)
    peer.feed(frames.publish(1, "", b"m", exchange="fan") * 100)
    most = max(steps_of(engine, lambda: sum(queue.ready_count for queue in queues)))
    assert most <= SOME * entries_a_unit + len(queues)
    assert {queue.ready_count for queue in queues} == {100}


def test_queues_that_drop_a_lot_leave_turns_to_others(engine, queue, peer):
    """All of theirs would be dropped before a queue behind them delivers."""
    limited = [engine.queue(0, f"{number}", False) for number in range(20)]
    for each in limited:
        each.set_limits(max_length=1)
        fill(engine, each, 200)
    peer.channel.consume(queue, "c", True, 0, 0)
    fill(engine, queue, 1)
    cut_often(engine)
    before = 0
    for _ in turns(engine):
        if queue.delivered:
            break
        before += 1
    assert before < len(limited) // 2
    for _ in turns(engine):
        pass
    assert {each.ready_count for each in limited} == {1}


@pytest.mark.parametrize("excess", range(1, 41))
def test_a_queue_that_drops_a_lot_delivers_to_who_comes_meanwhile(engine, queue, peer, excess):
    """Wherever the slice or the visit ends: the last drop may be what ends it."""
    queue.set_limits(max_length=5)
    for number in range(5 + excess):
        engine.publish([queue], "", "q", frames.NO_PROPERTIES, b"%d" % number)
    cut_often(engine, units=1)
    engine.run()
    peer.channel.consume(queue, "c", True, 0, 0)
    for _ in turns(engine):
        pass
    assert queue.ready_count == 0


def test_many_queues_take_turns(engine, peer):
    queues = [engine.queue(0, f"{number}", False) for number in range(MANY)]
    for queue in queues:
        peer.channel.consume(queue, queue.name, True, 0, 0)
        fill(engine, queue, 1)
    cut_often(engine)
    served = []
    for _ in turns(engine):
        served.append([each.consumer for each in peer.events(run=False)])
    assert max(len(each) for each in served) < SOME
    assert [int(tag) for each in served for tag in each] == list(range(MANY))


def test_a_long_queue_does_not_keep_a_short_one_waiting(engine, queue, peer):
    peer.channel.consume(queue, "c", True, 0, 0)
    short = engine.queue(0, "short", False)
    other = Peer(engine)
    other.channel.consume(short, "c", True, 0, 0)
    fill(engine, queue, 5000)
    cut_often(engine)
    fill(engine, short, 3)
    engine.run()
    engine.run()
    assert short.ready_count == 0
    assert queue.ready_count > 4000


def test_a_tighter_limit_is_enforced_in_slices(engine, queue, peer):
    fill(engine, queue)
    queue.set_limits(max_length=1)
    cut_often(engine)
    assert -min(steps_of(engine, lambda: queue.ready_count)) < SOME
    assert peer.drain(queue) == [b"%d" % (MANY - 1)]


def test_a_limit_holds_though_there_is_no_time_to_deliver(engine, queue, peer):
    """What is over it goes first."""
    queue.set_limits(max_length=100)
    peer.channel.consume(queue, "c", True, 0, 0)
    cut_often(engine)
    for _ in range(30):
        fill(engine, queue, 50)
        engine.run()
        peer.take()
    assert queue.ready_count < 200


def test_what_expires_at_one_moment_goes_in_slices(engine, queue, peer):
    fill(engine, queue, expiration="5")
    fill(engine, queue, 1)
    engine.clock.now_ms += 6
    cut_often(engine)
    steps = steps_of(engine, lambda: engine.queues.expired)
    assert max(steps) < SOME
    assert sum(steps) == MANY
    assert queue.ready_count == 1


@pytest.mark.parametrize("lanes", [0, 3])
def test_what_has_expired_is_nobodys_though_it_is_still_there(engine, queue, peer, lanes):
    if lanes:
        queue.set_priorities(lanes)
    fill(engine, queue, expiration="5", priority=1)
    fill(engine, queue, 1)
    engine.clock.now_ms += 6
    cut_often(engine)
    peer.channel.consume(queue, "c", True, 0, 0)
    engine.run()
    assert queue.ready_count > MANY - SOME
    assert numbers(peer.events(run=False)) == [0]
    for _ in turns(engine):
        assert peer.events(run=False) == []
    assert (queue.ready_count, engine.queues.expired) == (0, MANY)


def test_what_was_settled_before_it_expires_costs_nothing(engine, queue, peer):
    fill(engine, queue, 10_000, expiration="5")
    for _ in range(10_000):
        peer.get(queue)
    engine.clock.now_ms += 6
    cut_often(engine)
    engine.run()
    assert not engine.busy


def test_what_was_held_comes_back_in_slices(engine, queue, peer):
    hold(engine, queue, peer, 100)
    assert queue.held_count == MANY
    engine.clock.now_ms += 100
    cut_often(engine)
    assert max(steps_of(engine, lambda: queue.ready_count)) < SOME
    assert numbers_of(peer.drain(queue)) == list(range(MANY))


@pytest.mark.parametrize("kind", ["timers", "held"])
def test_timers_of_what_is_gone_are_forgotten_in_slices(engine, queue, peer, kind):
    """A purge left a million of them, which the next turn looked at in one piece: 145 ms."""
    timers = getattr(engine.queues, kind)
    if kind == "timers":
        for number in range(MANY):
            fill(engine, queue, 1, expiration=str(10_000 + number))
    else:
        hold(engine, queue, peer, 10_000)
    engine.run()
    assert timers.count == MANY
    queue.retire()
    cut_often(engine)
    steps = steps_of(engine, lambda: MANY - timers.count)
    assert max(steps) < SOME
    assert timers.count == 0


@pytest.mark.parametrize("left", [1, 600])
def test_what_is_left_expires_though_timers_are_being_forgotten(engine, queue, peer, left):
    start = engine.clock.now_ms
    for number in range(MANY):
        fill(engine, queue, 1, expiration=str(10_000 + number * 7919 % MANY))
    engine.run()
    ended(queue.purging())
    for number in range(left):
        fill(engine, queue, 1, expiration=str(9_000 + number * 7919 % left))
    cut_often(engine)
    engine.run()
    for number in range(left):
        fill(engine, queue, 1, expiration=str(9_000 + left + number))
    for _ in turns(engine):
        pass
    assert engine.queues.timers.count < MANY
    for gone in range(1, 2 * left + 1):
        assert engine.next_due_ms == start + 9_000 + gone - 1
        engine.clock.now_ms = engine.next_due_ms
        for _ in turns(engine):
            pass
        assert queue.ready_count == 2 * left - gone
    assert engine.queues.expired == 2 * left


def numbers_of(bodies):
    return [int(body) for body in bodies]


def test_what_is_for_now_or_never(engine, queue, peer):
    """A time to live of 0: who can take it, gets it, even if that takes several turns."""
    peer.channel.consume(queue, "c", False, 0, 1000)
    fill(engine, queue, expiration="0")
    cut_often(engine)
    found = []
    for _ in turns(engine):
        found += numbers(peer.events(run=False))
    assert found == list(range(1000))
    assert (queue.ready_count, queue.unacked_count, engine.queues.expired) == (0, 1000, 1000)
    peer.feed(frames.nack(1, 1))
    engine.run()
    assert (queue.ready_count, queue.unacked_count, engine.queues.expired) == (0, 999, 1001)


def test_those_who_wait_for_their_channels_limit_are_served_in_slices(engine, peer):
    queues = [engine.queue(0, f"{number}", False) for number in range(500)]
    peer.channel.prefetch_global = 1
    for queue in queues:
        peer.channel.consume(queue, queue.name, False, 0, 0)
        fill(engine, queue, 3)
    assert len(peer.deliveries()) == 1
    peer.channel.prefetch_global = 1400
    cut_often(engine)
    found: Counter[str] = Counter()
    for _ in turns(engine):
        new = [each.consumer for each in peer.events(run=False)]
        assert len(new) < 2 * SOME
        found.update(new)
    assert sum(found.values()) == 1399
    assert min(found.values()) >= 2


@pytest.mark.parametrize("limit", [0, 10_000])
def test_a_limit_that_ends_frees_those_who_wait_in_slices(engine, queue, peer, limit):
    peer.channel.prefetch_global = 1
    for number in range(1000):
        peer.channel.consume(queue, f"{number}", False, 0, 1)
    fill(engine, queue, 1)
    assert len(peer.deliveries()) == 1
    fill(engine, queue, MANY)
    cut_often(engine)
    peer.channel.prefetch_global = limit
    assert max(steps_of(engine, lambda: queue.delivered)) < 2 * SOME
    assert (queue.unacked_count, queue.ready_count) == (1000, MANY - 999)


# ------------------------------------------------------------------ purged and deleted


def test_a_purge_is_done_in_slices_and_what_comes_meanwhile_stays(engine, queue, peer):
    queue.set_retries("all", 100, 100)
    fill(engine, queue)
    for _ in range(10):
        peer.get(queue, no_ack=False)
    peer.feed(frames.nack(1, 5, multiple=True))
    assert queue.held_count == 5
    cut_often(engine)
    found: list[int] = []
    engine.jobs.start(queue.purging(), found.append)
    assert queue.ready_count > MANY - SOME
    new = 0
    for _ in turns(engine):
        assert found == [] or queue.ready_count == new
        if not found:
            fill(engine, queue, 1)
            new += 1
    assert new > MANY // SOME
    assert found == [MANY - 5]
    assert (queue.ready_count, queue.held_count, queue.unacked_count) == (new, 0, 5)
    assert numbers_of(peer.drain(queue)) == [0] * new


@pytest.mark.parametrize("lanes", [0, 3])
def test_others_consume_while_a_queue_is_purged(engine, queue, peer, lanes):
    """Each message goes one way."""
    if lanes:
        queue.set_priorities(lanes)
    for number in range(MANY):
        engine.publish([queue], "", "q", frames.properties(priority=number % 3), b"%d" % number)
    cut_often(engine)
    purged: list[int] = []
    engine.jobs.start(queue.purging(), purged.append)
    peer.channel.consume(queue, "c", False, 0, 300)
    found = []
    for _ in turns(engine):
        found += numbers(peer.events(run=False))
    assert len(set(found)) == len(found) == queue.unacked_count == 300
    assert purged == [MANY - 300]
    assert queue.ready_count == 0
    fill(engine, queue, 1, priority=1)
    assert numbers_of(peer.drain(queue)) == [0]


def test_a_purge_makes_room_for_the_backlog(engine, queue, peer):
    queue.set_limits(max_length=MANY, overflow="reject-publish")
    fill(engine, queue, MANY + 10)
    assert queue.backlog_count == 10
    cut_often(engine)
    engine.jobs.start(queue.purging())
    for _ in turns(engine):
        pass
    assert numbers_of(peer.drain(queue)) == list(range(MANY, MANY + 10))


def test_a_queue_may_be_deleted_while_it_is_purged(engine, queue, peer):
    fill(engine, queue)
    cut_often(engine)
    found: list[int] = []
    engine.jobs.start(queue.purging(), found.append)
    engine.run()
    assert sum((*found, queue.retire())) < MANY
    for _ in turns(engine):
        pass
    assert len(found) == 1
    assert live(engine.logs.transient) == 0


def live(log):
    return sum(segment.live for segment in log.segments if segment is not None)


@pytest.mark.parametrize("unique", [False, True])
def test_what_a_deleted_queue_had_is_dropped_in_slices(engine, peer, unique):
    queue = (engine.unique_queue if unique else engine.queue)(0, "d", False)
    for number in range(MANY):
        headers = frames.table(**{"x-deduplication-header": frames.longstr(b"%d" % number)})
        raw = frames.properties(headers=headers, expiration="1000")
        engine.publish([queue], "", "d", raw, b"")
    for _ in range(10):
        peer.get(queue, no_ack=False)
    cut_often(engine)
    assert queue.retire() == MANY - 10
    assert (queue.ready_count, queue.unacked_count, queue.ready_bytes) == (0, 0, 0)
    assert live(engine.logs.transient) > MANY - SOME
    engine.clock.now_ms += 1000  # nothing of it expires any more
    rest = engine.queue(0, "r", False)
    steps = []
    for _ in turns(engine):
        steps.append(live(engine.logs.transient))
        fill(engine, rest, 1)
    assert len(steps) > MANY // SOME
    assert live(engine.logs.transient) == rest.ready_count == len(steps)
    assert engine.queues.expired == 0
    peer.feed(frames.ack(1, 0, multiple=True))
    assert peer.channel.unacked_count == 0


def test_logs_are_cleaned_while_the_entries_of_a_deleted_queue_are_dropped(engine, disk, peer):
    gone, kept = (engine.queue(number, f"{number}", True) for number in (1, 2))
    for number in range(MANY):
        both = [gone, kept] if number % 50 == 0 else [gone]
        engine.publish(both, "", "q", frames.PERSISTENT, b"%d" % number)
    for number in range(MANY):
        peer.get(gone, no_ack=number % 10 != 0)
    disk.sync(engine)
    before = len(engine.logs.segments)
    cut_often(engine, 1)
    assert gone.retire() == 0
    engine.clock.now_ms += 100
    disk.sync(engine)
    for _ in turns(engine):
        engine.clock.now_ms += 100
        disk.sync(engine)
    disk.settle(engine)
    assert live(engine.logs.durable) == kept.ready_count == MANY // 50
    assert len(engine.logs.segments) < before // 2
    assert numbers_of(peer.drain(kept)) == list(range(0, MANY, 50))


def test_letters_that_die_again_are_made_in_slices(engine):
    """Each message passes through many queues, each of which dead-letters it to the next."""
    queues = [engine.queue(0, f"{number}", False) for number in range(400)]
    made = []
    for queue, following in pairwise(queues):

        def letter(reason, exchange, key, raw, body, following=following):
            made.append(int(body))
            engine.publish([following], exchange, key, raw, body)

        queue.dead_letters = letter
        queue.set_limits(max_length=0)
    cut_often(engine)
    fill(engine, queues[0], 3)
    assert max(steps_of(engine, lambda: len(made))) < 10
    assert sorted(made) == sorted([0, 1, 2] * 399)
    assert queues[-1].ready_count == 3


def test_letters_of_queues_that_refuse_are_made_in_slices(engine, peer):
    """Until they are made, nobody publishes to such queues; others are not kept waiting."""
    made = []

    def letter(reason, exchange, key, raw, body):
        made.append(int(body))

    queues = [engine.queue(0, f"{number}", False) for number in range(250)]
    for queue in queues:
        queue.dead_letters = letter
        queue.set_limits(max_length=0, overflow="reject-publish-dlx")
    open_queue = engine.queue(0, "open", False)
    full, other = Peer(engine), Peer(engine)
    full.session.caches["x"] = engine.route_cache("x", lambda *_: queues, True)
    other.session.caches["x"] = engine.route_cache("x", lambda *_: [open_queue], True)
    cut_often(engine)
    full.feed(b"".join(frames.publish(1, "k", b"%d" % at, exchange="x") for at in range(3)))
    assert 0 < len(made) < 10
    other.feed(frames.publish(1, "k", b"9", exchange="x"))
    engine.run()
    engine.run()
    assert open_queue.ready_count == 1
    assert engine.queues.dead_lettering.refused
    waiting = []
    for _ in turns(engine):
        waiting.append(len(engine.queues.dead_lettering.refused))
    assert max(waiting) < 250
    assert made == [0] * 250 + [1] * 250 + [2] * 250


def test_a_commit_makes_the_letters_of_queues_that_refuse(engine, peer):
    made = []
    full = engine.queue(0, "q", False)
    full.dead_letters = lambda reason, exchange, key, raw, body: made.append(int(body))
    full.set_limits(max_length=0, overflow="reject-publish-dlx")
    peer.session.caches[""] = engine.route_cache("", lambda *_: [full], True)
    peer.channel.select_tx()
    for at in range(20):
        peer.feed(frames.publish(1, "q", b"%d" % at))
    cut_often(engine)
    peer.channel.commit()
    assert made == list(range(20))
