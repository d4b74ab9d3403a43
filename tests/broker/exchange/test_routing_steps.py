"""Routes that take longer than a slice, over the real engine; what changes meanwhile."""

from __future__ import annotations

import pytest
from tests.broker.exchange.test_routing import Filtering, encoded, raw
from tests.engine.frames import publish
from tests.engine.slices import cut_often, turns

from leporid.amqp.properties import Properties
from leporid.broker.events.outbox import Notice, Outbox
from leporid.broker.exchange.types import Binding
from leporid.broker.registry import finished

MANY = 2000


@pytest.fixture
def here() -> Filtering:
    return Filtering()


def unfinished(here: Filtering, *frames: bytes) -> None:
    """Publish what is not routed yet when this returns."""
    cut_often(here.engine, 1)
    here.peer.feed(*frames)
    assert here.engine.busy


def finish(here: Filtering) -> None:
    for _ in turns(here.engine):
        pass
    here.engine.clock.monotonic_ns = None


@pytest.mark.parametrize("after", [*range(1, 24, 4), 32, 40, 60])
@pytest.mark.parametrize("cut_after", [False, True])
@pytest.mark.parametrize("sql", [None, "n = 1"])
def test_a_queue_that_is_deleted_meanwhile_gets_nothing(here, sql, after, cut_after):
    here.exchange("x", "fanout")
    names = [f"q{number}" for number in range(MANY)]
    here.queues(*names)
    for name in names:
        here.filtered("x", name, sql=sql)
    unfinished(here, publish(1, "k", b"m", exchange="x", raw=raw(n=1)))
    for _ in range(after):
        here.engine.run()
    gone = [here.vhost.queue(name) for name in names[::2]]
    for queue in gone:
        finished(here.vhost.deleting_queue(queue))
    if not cut_after:
        here.engine.clock.monotonic_ns = None
    finish(here)
    assert {queue.engine.published for queue in gone} == {0}
    assert [name for name in names[1::2] if here.came(name) != ["m"]] == []
    assert not here.peer.session.defects


@pytest.mark.parametrize("after", range(1, 100, 9))
def test_a_queue_deleted_below_an_exchange_that_is_asked_for_each_message_gets_nothing(here, after):
    here.exchange("top", "headers")
    here.exchange("x", "fanout")
    names = [f"q{number}" for number in range(MANY)]
    here.queues(*names)
    here.filtered("top", "x")
    for name in names:
        here.filtered("x", name)
    unfinished(here, publish(1, "k", b"m", exchange="top"))
    for _ in range(after):
        here.engine.run()
    gone = [here.vhost.queue(name) for name in names[::2]]
    for queue in gone:
        finished(here.vhost.deleting_queue(queue))
    finish(here)
    assert {queue.engine.published for queue in gone} == {0}
    assert [name for name in names[1::2] if here.came(name) != ["m"]] == []


@pytest.mark.parametrize("after", range(1, 16))
def test_a_queue_deleted_before_few_filters_are_put_together_gets_nothing(here, after):
    here.exchange("x", "fanout")
    names = [f"q{number}" for number in range(MANY)]
    here.queues("filtered", *names)
    here.filtered("x", "filtered", sql="n = 1")
    for name in names:
        here.filtered("x", name)
    unfinished(here, publish(1, "k", b"m", exchange="x", raw=raw(n=1)))
    for _ in range(after):
        here.engine.run()
    gone = [here.vhost.queue(name) for name in names[::2]]
    for queue in gone:
        finished(here.vhost.deleting_queue(queue))
    here.engine.clock.monotonic_ns = None
    finish(here)
    assert {queue.engine.published for queue in gone} == {0}
    assert here.came("filtered") == ["m"]


@pytest.mark.parametrize("after", range(1, 24, 4))
def test_an_exchange_that_is_deleted_meanwhile_keeps_nothing(here, after):
    here.exchange("x", "fanout")
    here.exchange("recent", "x-recent-history")
    here.exchange("late", "x-delayed-message", x_delayed_type="fanout")
    names = [f"q{number}" for number in range(MANY)]
    here.queues(*names)
    for name in (*names, "recent", "late"):
        here.filtered("x", name)
    headers = encoded({"x-delay": 10})
    unfinished(here, publish(1, "k", b"m", exchange="x", raw=headers))
    for _ in range(after):
        here.engine.run()
    for name in ("recent", "late"):
        finished(here.vhost.deleting_exchange(here.vhost.exchange(name), if_unused=False))
    finish(here)
    assert here.came("q7") == ["m"]
    assert [each.exchange for each in here.vhost.delay_stores] == []
    assert not here.peer.session.defects


def test_a_filter_that_comes_meanwhile_counts_for_the_next_message(here):
    here.exchange("x", "fanout")
    names = [f"q{number}" for number in range(MANY)]
    here.queues("late", *names)
    for name in names:
        here.filtered("x", name, sql="n = 0")
    unfinished(here, publish(1, "k", b"m", exchange="x", raw=raw(n=1)))
    here.filtered("x", "late", sql="n = 1")
    finish(here)
    here.came("late")
    here.send("x", "next", raw(n=1))
    assert here.came("late") == ["next"]


@pytest.mark.parametrize("after", [1, 2, 3])
@pytest.mark.parametrize("kind", ["fanout", "headers"])
def test_a_filter_that_goes_and_comes_back_meanwhile_still_counts(here, kind, after):
    here.exchange("x", kind)
    names = [f"q{number}" for number in range(3000)]
    here.queues(*names)
    for name in names:
        here.filtered("x", name, sql="n = 0")
    unfinished(here, publish(1, "k", b"m", exchange="x", raw=raw(n=1)))
    for _ in range(after):
        here.engine.run()
    for name in names[::10]:
        here.unbind("x", name, sql="n = 0")
    for _ in range(3):
        here.engine.run()
    for name in names[::10]:
        here.filtered("x", name, sql="n = 0")
    finish(here)
    assert sum(here.vhost.queue(name).engine.published for name in names) == 0


FILTERED = 1000


def behind(here: Filtering, kind: str = "headers") -> list[str]:
    """The queues of an exchange `deep`, each of which has a filter to be asked."""
    here.exchange("deep", kind)
    names = [f"q{number}" for number in range(FILTERED)]
    here.queues(*names)
    for number, name in enumerate(names):
        here.filtered("deep", name, sql=f"n = {number % 2}", x_match="any", n=1)
    return names


def steps_until_done(here: Filtering) -> int:
    return sum(1 for _ in turns(here.engine))


def test_a_notice_is_routed_in_steps(here):
    names = behind(here)
    outbox = Outbox(here.engine, "things")
    properties = Properties(headers={"n": 1})
    cut_often(here.engine, 1)
    deep = here.vhost.exchange("deep")
    outbox.put(Notice(here.vhost, deep, "k", properties, b"m", 0))
    assert steps_until_done(here) > 4
    assert [name for name in names if here.came(name)] == names[1::2]
    assert outbox.published == 1


def test_the_letter_that_no_queue_takes_is_routed_on_in_steps(here):
    names = behind(here)
    here.exchange("letters", "fanout", alternate_exchange="deep")
    here.queue("full", x_max_length=1, x_overflow="reject-publish")
    here.bind("letters", "full")
    here.queue("dying", x_dead_letter_exchange="letters")
    here.send("", "first", raw(n=1), "full")
    here.send("", "m", raw(n=1), "dying")
    engine = here.engine
    engine.run()
    queue = here.vhost.queue("dying").engine
    cut_often(engine, 1)
    queue.set_limits(max_length=0)
    assert steps_until_done(here) > 4
    assert [name for name in names if here.came(name)] == names[1::2]
    assert here.came("full") == ["first"]


def test_a_history_is_routed_on_in_steps(here):
    here.exchange("past", "x-recent-history")
    here.send("past", "m", raw(n=1))
    names = behind(here)
    cut_often(here.engine, 1)
    steps = here.vhost.bindings.bind(Binding("past", "deep", "exchange", "k", {}), None)
    assert steps is not None
    assert sum(1 for _ in steps) > 4
    here.engine.clock.monotonic_ns = None
    assert [name for name in names if here.came(name)] == names[1::2]
