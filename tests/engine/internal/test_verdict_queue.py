"""What waits for the verdicts of a filter class, and what becomes of it."""

from __future__ import annotations

import pytest
from tests.engine.frames import PERSISTENT, properties, publish, table
from tests.engine.slices import SOME, cut_often, turns
from tests.engine.verdict_world import ALL, World


@pytest.fixture
def world():
    return World()


def even(body: bytes) -> bool:
    return int(body) % 2 == 0


# ------------------------------------------------------------------ judging


def test_what_passes_goes_on_in_order_and_the_rest_ends(world):
    world.send(b"1", b"2", b"3", b"4", b"6")
    assert world.came() == []
    assert world.judge(even) == [b"1", b"2", b"3", b"4", b"6"]
    assert world.waiting() == 0
    assert world.came() == [b"2", b"4", b"6"]
    assert (world.verdict_queue.passed, world.verdict_queue.dropped) == (3, 2)


def test_a_filter_sees_names_properties_and_body(world):
    raw = properties(headers=table(n=b"l" + bytes(7) + b"\5"), delivery_mode=2)
    world.send(b"body", raw=raw)
    [message] = world.messages()
    assert (message.exchange, message.routing_key) == ("f", "k")
    assert message.headers == {"n": 5}
    assert (message.properties.delivery_mode, message.body) == (2, b"body")


def test_what_goes_on_is_what_came(world):
    raw = properties(headers=table(a=b"t\1"), delivery_mode=2, priority=3)
    world.send(b"body", raw=raw)
    world.judge()
    got = world.peer.get(world.q)
    assert (got.exchange, got.key, got.body) == ("f", "k", b"body")
    assert (got.raw, got.redelivered) == (raw, False)


def test_batches_are_bounded_by_messages_and_by_bytes(world):
    world.send(*(b"x" * 100 for _ in range(10)))
    assert len(world.messages(most=3)) == 3
    world.verdict_queue.judged(b"\1" * 3)
    assert len(world.messages(bytes_max=250)) in (2, 3)
    world.verdict_queue.give_back()
    assert len(world.messages(bytes_max=1)) == 1


def test_there_is_one_batch_at_a_time(world):
    world.send(b"1", b"2")
    world.messages(most=1)
    assert world.verdict_queue.judging
    with pytest.raises(ValueError, match="out already"):
        world.verdict_queue.batch(1, 1)
    world.verdict_queue.judged(b"\1")
    assert not world.verdict_queue.judging


def test_an_empty_verdict_queue_has_no_batch(world):
    assert world.verdict_queue.batch(5, 5) is None
    assert not world.verdict_queue.judging


def test_as_many_verdicts_as_messages(world):
    world.send(b"1", b"2")
    world.messages()
    with pytest.raises(ValueError, match="1 verdicts for 2 messages"):
        world.verdict_queue.judged(b"\1")
    world.verdict_queue.judged(b"\1\1")
    assert world.came() == [b"1", b"2"]


def test_what_is_given_back_is_asked_about_again_before_what_came_since(world):
    world.send(b"1", b"2", b"3")
    assert len(world.messages(most=2)) == 2
    world.send(b"4")
    world.verdict_queue.give_back()
    assert world.waiting() == 4
    assert world.judge() == [b"1", b"2", b"3", b"4"]
    assert world.came() == [b"1", b"2", b"3", b"4"]


def test_says_when_there_is_something_to_judge(world):
    assert world.engine.verdicts.take() == []
    world.send(b"1")
    world.send(b"2")
    assert world.engine.verdicts.take() == [world.verdict_queue]
    assert world.engine.verdicts.take() == []
    world.send(b"3")
    assert world.engine.verdicts.take() == [world.verdict_queue]
    world.messages()
    world.verdict_queue.give_back()
    assert world.engine.verdicts.take() == [world.verdict_queue]


def test_others_get_theirs_at_once(world):
    world.send(b"1", exchange="both")
    assert world.came(world.other) == [b"1"]
    assert world.waiting() == 1
    world.judge()
    assert world.came() == [b"1"]


# ------------------------------------------------------------------ in slices


@pytest.mark.parametrize("exchange", [False, True])
def test_a_batch_is_republished_in_slices_and_asks_again_at_its_end(exchange):
    world = World(exchange=exchange)
    sent = [b"%d" % number for number in range(SOME)]
    world.send(*sent, b"last")
    world.engine.run()
    assert len(world.messages(most=SOME)) == SOME
    world.engine.verdicts.take()
    cut_often(world.engine)
    world.verdict_queue.judged(b"\1" * SOME)
    assert world.waiting() > 1
    assert world.verdict_queue.batch(ALL, 2**20) is None
    assert len([*turns(world.engine)]) > 1
    assert world.waiting() == 1
    assert world.engine.verdicts.take() == [world.verdict_queue]
    assert world.judge() == [b"last"]
    assert len([*turns(world.engine)]) > 0
    assert world.came() == [*sent, b"last"]


def test_an_empty_verdict_queue_says_when_the_last_slice_is_over():
    world = World(exchange=True)
    world.send(b"1", b"2")
    world.messages()
    world.engine.verdicts.take()
    cut_often(world.engine)
    world.verdict_queue.judged(b"\0\1")
    assert world.engine.verdicts.take() == []
    for _ in turns(world.engine):
        pass
    assert world.engine.verdicts.take() == [world.verdict_queue]
    assert world.verdict_queue.batch(1, 1) is None


def test_a_queue_deleted_between_two_slices_gets_nothing():
    world = World(exchange=True)
    world.beyond = ["q", "other"]
    world.send(b"1")
    world.messages()
    cut_often(world.engine)
    world.verdict_queue.judged(b"\1")
    assert world.waiting() == 1
    world.other.retire()
    for _ in turns(world.engine):
        pass
    assert (world.q.ready_count, world.other.ready_count, world.waiting()) == (1, 0, 0)


def test_what_is_left_of_a_batch_goes_with_the_binding():
    world = World(exchange=True)
    world.send(b"1", b"2")
    world.messages()
    cut_often(world.engine)
    world.verdict_queue.judged(b"\1\1")
    world.verdict_queue.retire()
    for _ in turns(world.engine):
        pass
    assert world.q.ready_count == 0
    assert world.waiting() == 0


# ------------------------------------------------------------------ publishers


def test_what_waits_is_routed(world):
    world.peer.feed(publish(1, "k", b"1", raw=PERSISTENT, exchange="f", mandatory=True))
    world.engine.run()
    assert (world.engine.queues.unroutable, world.engine.queues.published) == (0, 1)
    world.judge()
    assert world.engine.queues.published == 1


def test_a_confirm_leaves_when_what_waits_is_on_disk(world):
    world.peer.channel.select_confirm()
    world.send(b"1")
    world.engine.run()
    assert world.engine.queues.confirmed == 0
    world.sync()
    world.engine.run()
    assert world.engine.queues.confirmed == 1
    assert world.waiting() == 1


# ------------------------------------------------------------------ where it goes


def test_time_to_live_begins_in_the_queue(world):
    world.send(b"1", raw=properties(expiration="50", delivery_mode=2))
    world.engine.clock.now_ms += 1000
    world.engine.run()
    assert world.waiting() == 1
    world.judge()
    assert world.q.ready_count == 1
    world.engine.clock.now_ms += 49
    world.engine.run()
    assert world.q.ready_count == 1
    world.engine.clock.now_ms += 1
    world.engine.run()
    assert world.q.ready_count == 0


def test_a_full_queue_refuses_what_passes_and_its_dead_letters_have_it(world):
    letters: list[tuple[str, bytes]] = []
    world.q.dead_letters = lambda reason, *rest: letters.append((reason, rest[-1]))
    world.q.set_limits(max_length=1, overflow="reject-publish-dlx")
    world.verdict_queue = world.engine.verdict_queue(4, "again", world.q)
    world.caches["f"].forget()
    world.send(b"1", b"2")
    world.judge()
    assert world.came() == [b"1"]
    assert letters == [("maxlen", b"2")]
    assert world.waiting() == 0
    assert world.verdict_queue.unroutable == 0


def test_a_binding_to_an_exchange_asks_where_it_goes_after_the_verdict():
    world = World(exchange=True)
    world.send(b"1", b"2")
    assert world.asked_ways == []
    world.beyond = ["other"]
    world.judge(even)
    assert world.asked_ways == [("f", ["k"], PERSISTENT)]
    assert world.came(world.other) == [b"2"]


def test_what_comes_to_no_queue_is_counted():
    world = World(exchange=True)
    world.beyond = []
    world.send(b"1")
    world.judge()
    assert (world.verdict_queue.passed, world.verdict_queue.unroutable, world.waiting()) == (
        1,
        1,
        0,
    )


def test_what_is_in_no_queue_any_more_stays_so(world):
    world.send(b"1", b"2")
    world.messages()
    assert world.verdict_queue.retire() == 0
    world.verdict_queue.judged(b"\1\1")
    assert world.came() == []
    assert world.waiting() == 0


# ------------------------------------------------------------------ restarts


def test_what_waited_waits_after_a_crash(world):
    world.send(b"1", b"2", b"3")
    world.sync()
    world.messages(most=2)
    world.restart()
    assert world.engine.verdicts.take() == [world.verdict_queue]
    assert world.judge(lambda body: body != b"2") == [b"1", b"2", b"3"]
    assert world.came() == [b"1", b"3"]


def test_what_was_judged_is_not_judged_again(world):
    world.send(b"1", b"2", b"3", b"4")
    world.judge(even, most=2)
    world.sync()
    world.restart()
    assert world.judge(even) == [b"3", b"4"]
    assert world.came() == [b"2", b"4"]


def test_what_passed_is_not_redelivered_after_a_crash(world):
    world.send(b"1")
    world.sync()
    world.restart()
    world.judge()
    assert world.peer.get(world.q).redelivered is False


@pytest.mark.parametrize("transient", [False, True])
def test_transient_messages_pass_and_do_not_outlive_a_restart(world, transient):
    raw = properties(delivery_mode=1) if transient else PERSISTENT
    world.send(b"2", b"4", raw=raw)
    world.judge(even, most=1)
    world.sync()
    world.restart()
    assert world.waiting() == (0 if transient else 1)
    assert world.came() == ([] if transient else [b"2"])


@pytest.mark.parametrize("segment_bytes", [4096, 512])
def test_a_crash_anywhere_neither_loses_nor_doubles_nor_reorders(segment_bytes):
    """Every prefix of what is written while a batch goes on."""
    world = World(segment_bytes=segment_bytes)
    sent = [b"%d" % number for number in range(12)]
    world.send(*sent)
    world.sync()
    world.judge(even, most=9)
    world.engine.run()
    assert world.disk.begin(world.engine)
    assert world.disk.job is not None
    total = sum(len(data) for *_, data in world.disk.job[1])
    disk = world.disk
    for written in range(0, total + 1, 8):
        world.restart(disk.crashed(written))
        before = world.came()
        world.judge(even)
        assert before + world.came() == [body for body in sent if even(body)], written


def test_a_long_verdict_queue_survives_cleaning(world):
    for round_ in range(40):
        world.send(*(b"%d" % number for number in range(round_ * 10, round_ * 10 + 10)))
        world.judge(even, most=8)
        world.engine.clock.now_ms += 1000
        world.sync()
    came = world.came()
    while world.waiting():
        world.judge(even)
    came += world.came()
    assert came == [b"%d" % number for number in range(0, 400, 2)]
