"""Bindings that ask filter classes, over the real engine; the verdicts are given by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.broker.at_once import drop_vhost
from tests.broker.exchange.test_delays import delay
from tests.broker.exchange.test_routing import Filtering, raw
from tests.broker.peer import World
from tests.broker.recording import Recording, drops, summary

from leporid.amqp.errors import NotFound, PreconditionFailed
from leporid.amqp.methods import ExchangeDeclare, QueueBind, QueueDeclare
from leporid.amqp.tables import Value
from leporid.broker.exchange.verdict_queues import PREFIX
from leporid.broker.filter.filter_classes import FilterClassConflict
from leporid.broker.stored import StoredBinding, StoredFilterClass, StoredVerdictQueue
from leporid.durable import Drop, Put
from leporid.filterserver import frames
from leporid.filterserver.filter_class import FilterClass
from leporid.filterserver.message import Message, messages_of

BIG = FilterClass("big", 1, "Filter", b"...")
SMALL = FilterClass("small", 1, "Filter", b"...")
PLAIN = raw()


class Judged(Filtering):
    """With a registered class whose verdicts are given by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.broker.filter_classes.put(BIG)
        self.changes.clear()

    def classed(self, source: str, destination: str, key: str = "k", **more: Value) -> None:
        self.filtered(source, destination, key, x_filter_class="big", **more)

    def unclassed(self, source: str, destination: str, key: str = "k") -> None:
        self.unbind(source, destination, key, x_filter_class="big")

    def judge(self, passes: Callable[[Message], bool] = lambda message: True) -> int:
        """Give verdicts about everything that waits; returns how much that was."""
        count = 0
        for place in self.engine.verdicts.take():
            while (batch := place.batch(10, 10_000)) is not None:
                messages = messages_of(batch[0][frames.HEAD.size :])
                place.judged(bytes(passes(each) for each in messages))
                count += batch[1]
        self.broker.settle_verdict_queues()
        return count

    @property
    def waiting(self) -> int:
        return sum(self.broker.waiting_for_verdicts("big"))


@pytest.fixture
def here() -> Iterator[Judged]:
    found = Judged()
    yield found
    assert not found.peer.session.defects


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout", "headers"])
def test_a_queue_gets_what_passes(here, kind):
    here.exchange("x", kind)
    here.queues("a", "b")
    here.classed("x", "a")
    here.filtered("x", "b")
    assert here.goes("x", raw(n=1)) == "b"
    assert here.goes("x", raw(n=2)) == "b"
    assert here.waiting == 2
    assert here.judge(lambda message: message.headers["n"] == 2) == 2
    assert here.got() == "a"
    assert here.waiting == 0


def test_tags_and_expressions_of_the_binding_come_first(here):
    here.exchange("x")
    here.queues("a")
    here.classed("x", "a", tags="late", sql="n > 5")
    for tag, number in (("late", 6), ("early", 6), ("late", 5)):
        here.goes("x", raw(tag, n=number))
    assert here.waiting == 1
    here.judge()
    assert here.got() == "a"


def test_a_queue_that_has_the_message_anyhow_does_not_get_it_twice(here):
    here.exchange("x")
    here.queues("a")
    here.classed("x", "a")
    here.filtered("x", "a", "#")
    here.bind("x", "a")
    assert here.goes("x", PLAIN) == "a"
    assert here.waiting == 0


@pytest.mark.parametrize("kind", ["topic", "headers"])
@pytest.mark.parametrize(("n", "waiting", "expected"), [(1, 1, ""), (6, None, "a")])
def test_an_expression_of_another_binding_beside_a_class_brings_it_once(
    here, kind, n, waiting, expected
):
    here.exchange("x", kind)
    here.queues("a")
    here.filtered("x", "a", sql="n > 5")
    here.classed("x", "a")
    assert here.goes("x", raw(n=n)) == expected
    assert waiting is None or here.waiting == waiting
    here.judge()
    assert here.got() == ("" if expected else "a")
    assert here.waiting == 0


def test_tags_beside_a_class_and_another_binding_bring_it_once(here):
    here.exchange("x")
    here.queues("a")
    here.classed("x", "a", tags="late")
    here.bind("x", "a")
    assert here.goes("x", raw("late")) == "a"
    here.judge()
    assert here.got() == ""


@pytest.mark.parametrize("verdicts", ["yy", "yn", "ny", "nn"])
@pytest.mark.parametrize("first", ["big", "small"])
def test_two_classes_bring_a_queue_a_message_once(here, verdicts, first):
    here.broker.filter_classes.put(SMALL)
    here.exchange("x")
    here.queues("a")
    for name in ("big", "small"):
        here.filtered("x", "a", x_filter_class=name)
    for _ in range(3):
        here.goes("x", PLAIN)
    says = dict(zip(("big", "small"), verdicts, strict=True))
    places = sorted(here.engine.verdicts.take(), key=lambda place: place.name != first)
    for place in places:
        batch = place.batch(2, 10_000)
        if batch is not None:
            place.judged(bytes([says[place.name] == "y"]) * batch[1])
            while (batch := place.batch(2, 10_000)) is not None:
                place.judged(bytes([says[place.name] == "y"]) * batch[1])
    assert here.got() == ("aaa" if "y" in verdicts else "")
    assert [sum(here.broker.waiting_for_verdicts(name)) for name in ("big", "small")] == [0, 0]


def test_two_classes_that_are_asked_at_the_same_time_bring_it_once(here):
    here.broker.filter_classes.put(SMALL)
    here.exchange("x")
    here.queues("a")
    for name in ("big", "small"):
        here.filtered("x", "a", x_filter_class=name)
    here.goes("x", PLAIN)
    one, other = here.engine.verdicts.take()
    assert one.batch(5, 100)[1] == other.batch(5, 100)[1] == 1
    one.judged(b"\1")
    other.judged(b"\1")
    assert here.got() == "a"
    assert (one.passed, other.passed) == (1, 0)
    # The next one is asked about as ever.
    here.goes("x", PLAIN)
    assert other.batch(5, 100)[1] == 1
    other.judged(b"\0")
    assert one.batch(5, 100)[1] == 1
    one.judged(b"\1")
    assert here.got() == "a"


@pytest.mark.parametrize("first", ["big", "small"])
def test_a_class_on_the_way_to_an_exchange_beside_another_brings_it_once(here, first):
    here.broker.filter_classes.put(SMALL)
    for name in "xyz":
        here.exchange(name)
    here.queues("a", "b", "c", "d")
    here.filtered("x", "a", x_filter_class="big")
    for name, also in (("y", "b"), ("z", "c")):
        here.filtered("x", name, x_filter_class="small")
        here.bind(name, "a")
        here.bind(name, also)
    here.bind("x", "d")
    here.bind("z", "d")
    assert here.goes("x", PLAIN) == "d"
    for place in sorted(here.engine.verdicts.take(), key=lambda place: place.name != first):
        assert place.batch(5, 100) is None or place.judged(b"\1") is None
    assert here.got() == "abc"


def test_a_class_is_there_until_what_a_deleted_binding_left_is_judged(here):
    here.exchange("x")
    here.queues("a")
    here.classed("x", "a")
    here.goes("x", PLAIN)
    here.unclassed("x", "a")
    with pytest.raises(FilterClassConflict, match="deleted binding from x to a in vhost '/'"):
        here.broker.filter_classes.drop("big")
    here.judge()
    assert here.got() == "a"
    here.broker.filter_classes.drop("big")


def test_an_exchange_routes_what_passes(here):
    here.exchange("x")
    here.exchange("y", "topic")
    here.queues("a", "b")
    here.classed("x", "y")
    here.bind("y", "a", "#")
    here.filtered("y", "b", "#", sql="n = 2")
    assert here.goes("x", raw(n=1)) == ""
    assert here.goes("x", raw(n=2)) == ""
    here.judge()
    assert here.got() == "aab"


def test_what_passes_to_an_exchange_that_delays_waits_there(here):
    here.exchange("x")
    here.delayed("d")
    here.queues("a")
    here.classed("x", "d")
    here.bind("d", "a")
    here.goes("x", delay(100))
    here.judge()
    assert here.got() == ""
    here.sleep(200)
    assert here.got() == "a"


def test_a_delayed_message_is_judged_when_it_is_due(here):
    here.delayed("d")
    here.queues("a")
    here.classed("d", "a")
    here.goes("d", delay(100))
    assert here.waiting == 0
    here.sleep(200)
    assert here.waiting == 1
    here.judge()
    assert here.got() == "a"


def test_an_unregistered_class_is_not_found_and_nothing_is_bound(here):
    here.exchange("x")
    here.queues("a")
    here.changes.clear()
    with pytest.raises(NotFound, match="no filter class 'small' is registered"):
        here.filtered("x", "a", x_filter_class="small")
    with pytest.raises(PreconditionFailed, match="it must be a string, not"):
        here.filtered("x", "a", x_filter_class=5)
    assert here.changes == []
    assert not here.vhost.exchange("x").outgoing


def test_binding_twice_is_binding_once(here):
    here.exchange("x")
    here.queues("a")
    here.classed("x", "a")
    here.classed("x", "a")
    here.goes("x", PLAIN)
    assert here.waiting == 1


def test_a_class_that_a_binding_asks_is_not_deleted(here):
    here.exchange("x")
    here.queues("a")
    here.classed("x", "a")
    with pytest.raises(FilterClassConflict, match="the binding from x to a in vhost '/'"):
        here.broker.filter_classes.drop("big")
    here.unclassed("x", "a")
    here.broker.filter_classes.drop("big")


def test_no_client_can_name_the_place(here):
    with pytest.raises(UnicodeEncodeError):
        PREFIX.encode()


# ------------------------------------------------------------------ coming and going


def test_what_waits_when_a_binding_goes_is_judged_all_the_same(here):
    here.exchange("x")
    here.queues("a")
    here.classed("x", "a")
    here.goes("x", PLAIN)
    here.unclassed("x", "a")
    assert here.goes("x", PLAIN) == ""
    assert here.waiting == 1
    assert not drops(here.changes, StoredVerdictQueue)
    here.judge()
    assert here.got() == "a"
    assert drops([here.changes[-1]], StoredVerdictQueue)
    assert not list(here.vhost.verdict_queues)


def test_a_binding_that_comes_back_finds_what_waits(here):
    here.exchange("x")
    here.queues("a")
    here.classed("x", "a")
    here.goes("x", PLAIN)
    here.unclassed("x", "a")
    here.classed("x", "a")
    here.goes("x", PLAIN)
    assert here.waiting == 2
    here.judge()
    assert here.got() == "aa"
    assert len(list(here.vhost.verdict_queues)) == 1


def test_an_empty_place_goes_with_its_binding(here):
    here.exchange("x")
    here.queues("a")
    here.changes.clear()
    here.classed("x", "a")
    here.unclassed("x", "a")
    assert summary(here.changes) == [
        (Put, StoredVerdictQueue),
        (Put, StoredBinding),
        (Drop, StoredBinding),
        (Drop, StoredVerdictQueue),
    ]


@pytest.mark.parametrize("unbound", [False, True])
def test_what_waits_goes_with_its_queue(here, unbound):
    here.exchange("x")
    here.queues("a")
    here.classed("x", "a")
    here.goes("x", PLAIN)
    if unbound:
        here.unclassed("x", "a")
    here.vhost.delete_queue(here.vhost.queue("a"))
    assert here.waiting == 0
    assert here.judge() == 0
    assert not list(here.vhost.verdict_queues)


def test_what_waits_goes_with_the_exchange_that_it_is_on_its_way_to(here):
    here.exchange("x")
    here.exchange("y")
    here.classed("x", "y")
    here.goes("x", PLAIN)
    here.vhost.delete_exchange(here.vhost.exchange("y"), if_unused=False)
    assert here.waiting == 0


def test_what_waits_outlives_the_exchange_that_it_came_from(here):
    here.exchange("x")
    here.queues("a")
    here.classed("x", "a")
    here.goes("x", PLAIN)
    here.vhost.delete_exchange(here.vhost.exchange("x"), if_unused=False)
    assert here.waiting == 1
    here.judge()
    assert here.got() == "a"


def test_what_waits_goes_with_its_virtual_host(here):
    here.exchange("x")
    here.queues("a")
    here.classed("x", "a")
    here.goes("x", PLAIN)
    drop_vhost(here.broker, "/")
    assert here.judge() == 0


def test_a_history_is_judged_for_whoever_binds_late(here):
    here.exchange("h", "x-recent-history", x_recent_history_length=5)
    here.queues("a", "b")
    here.bind("h", "b")
    here.goes("h", PLAIN)
    here.classed("h", "a")
    assert here.got() == ""
    assert here.waiting == 1
    here.judge()
    assert here.got() == "a"


# ------------------------------------------------------------------ restarts


def recorded(*queues: str) -> Recording:
    """What is recorded of queues that are bound with a class, of which q is durable."""
    world, recording = World(), Recording(["/", "other"])
    world.broker.filter_classes.put(BIG)
    peer = world.peer()
    peer.call(ExchangeDeclare(exchange="x", durable=True))
    arguments: dict[str, Value] = {"x-filter-class": "big"}
    for queue in queues:
        peer.call(QueueDeclare(queue=queue, durable=queue == "q"))
        peer.call(QueueBind(queue=queue, exchange="x", routing_key="k", arguments=arguments))
    recording.extend(world.changes)
    return recording


def test_a_restart_finds_the_places_of_durable_bindings():
    recording = recorded("q", "passing")
    assert [each.destination for each in recording.of(StoredVerdictQueue)] == ["q"]

    again = World()
    again.broker.restore(recording.snapshot())
    [verdict_queue] = again.broker.vhosts["/"].verdict_queues
    assert (verdict_queue.id, verdict_queue.name, verdict_queue.engine.name) == (
        recording.of(StoredVerdictQueue)[0].id,
        "q",
        "big",
    )
    again.broker.settle_verdict_queues()
    assert list(again.broker.vhosts["/"].verdict_queues) == [verdict_queue]
    assert again.broker.new_queue_id() > verdict_queue.id
    assert not again.changes


def test_a_place_whose_binding_is_gone_goes_after_a_restart_if_it_is_empty():
    recording = recorded("q")
    recording.clear(StoredBinding)
    again = World()
    again.broker.restore(recording.snapshot())
    again.broker.settle_verdict_queues()
    assert not list(again.broker.vhosts["/"].verdict_queues)
    assert again.changes == [Drop(StoredVerdictQueue, (recording.of(StoredVerdictQueue)[0].id,))]


def test_a_class_that_the_configuration_lost_keeps_messages_waiting():
    recording = recorded("q")
    recording.clear(StoredFilterClass)
    again = World()
    again.broker.restore(recording.snapshot())
    [binding] = again.broker.vhosts["/"].exchange("x").outgoing
    assert again.broker.vhosts["/"].exchange("x").verdict_queues.keys() == {binding}
