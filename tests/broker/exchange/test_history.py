"""What an exchange keeps for those who are bound later, with the engine's fake."""

from __future__ import annotations

import pytest
from tests.broker.at_once import drop_vhost
from tests.broker.engine_fake import FakeCache, FakeQueue, as_engine, fake_of
from tests.broker.peer import Peer, World

from leporid.amqp.methods import (
    ChannelClose,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDelete,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value
from leporid.broker.exchange.history import BYTES_MAX
from leporid.broker.registry import finished

NOT_KEPT = encode_properties(Properties(headers={"x-recent-history-no-store": True}))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr("leporid.broker.exchange.history.snapshot", world.engine.snapshot)
    return world


@pytest.fixture
def peer(world: World) -> Peer:
    peer = world.peer()
    declare(peer, "recent")
    return peer


def declare(peer: Peer, name: str, kind: str = "x-recent-history", **arguments: Value) -> None:
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    peer.call(ExchangeDeclare(exchange=name, type=kind, arguments=named))


def bind(peer: Peer, queue: str, exchange: str = "recent", key: str = "") -> FakeQueue:
    peer.call(QueueDeclare(queue=queue))
    peer.call(QueueBind(queue=queue, exchange=exchange, routing_key=key or queue))
    return found(peer, queue)


def found(peer: Peer, queue: str) -> FakeQueue:
    return fake_of(peer.session.vhost.queue(queue).engine, FakeQueue)


def publish(peer: Peer, *bodies: str, exchange: str = "recent", properties: bytes = b"\0\0") -> int:
    return sum(
        peer.connection.publish(1, exchange, "k", body, properties=properties) for body in bodies
    )


def histories(world: World) -> list[FakeQueue]:
    return [queue for queue in world.engine.queues if queue.private]


def test_whoever_is_bound_gets_what_was_published_before(peer: Peer):
    publish(peer, "1", "2")
    assert bind(peer, "q").ready == ["1", "2"]
    publish(peer, "3")
    assert found(peer, "q").ready == ["1", "2", "3"]
    assert bind(peer, "r").ready == ["1", "2", "3"]


def test_binding_what_is_bound_gives_nothing(peer: Peer):
    publish(peer, "1")
    bind(peer, "q")
    assert bind(peer, "q").ready == ["1"]
    assert bind(peer, "q", key="another binding").ready == ["1", "1"]


def test_what_was_unbound_gets_it_once_more(peer: Peer):
    publish(peer, "1")
    bind(peer, "q")
    peer.call(QueueUnbind(queue="q", exchange="recent", routing_key="q"))
    assert bind(peer, "q").ready == ["1", "1"]


def test_the_history_is_bounded_in_messages_and_bytes(world: World, peer: Peer):
    declare(peer, "short", x_recent_history_length=3)
    limits = [each.limits for each in histories(world)]
    assert limits == [
        {"max_length": 20, "max_bytes": BYTES_MAX, "overflow": "drop-head"},
        {"max_length": 3, "max_bytes": BYTES_MAX, "overflow": "drop-head"},
    ]


def test_nobody_can_find_it(world: World, peer: Peer):
    publish(peer, "1")
    (history,) = histories(world)
    assert history.ready == ["1"]
    assert peer.session.vhost.find_queue(history.name) is None
    assert list(peer.session.vhost.queues()) == []
    assert publish(peer, "x", exchange="") == 0
    assert peer.connection.publish(1, "", history.name, "x") == 0


def test_what_says_so_is_not_kept(peer: Peer):
    queue = bind(peer, "q")
    publish(peer, "1", properties=NOT_KEPT)
    assert queue.ready == ["1"]
    assert bind(peer, "r").ready == []


def test_what_comes_through_other_exchanges_is_kept_too(world: World, peer: Peer):
    declare(peer, "above", "fanout")
    peer.call(ExchangeBind(source="above", destination="recent"))
    publish(peer, "1", exchange="above")
    declare(peer, "with-alternate", "direct", alternate_exchange="recent")
    publish(peer, "2", exchange="with-alternate")
    assert bind(peer, "q").ready == ["1", "2"]


def test_an_exchange_that_is_bound_passes_it_on(peer: Peer):
    publish(peer, "1", "2")
    declare(peer, "below", "direct")
    queue, other = bind(peer, "q", "below", "k"), bind(peer, "r", "below", "other")
    peer.call(ExchangeBind(source="recent", destination="below"))
    assert (queue.ready, other.ready) == (["1", "2"], [])


def test_an_exchange_that_is_bound_and_keeps_messages_keeps_it(peer: Peer):
    publish(peer, "1")
    declare(peer, "below")
    peer.call(ExchangeBind(source="recent", destination="below"))
    assert bind(peer, "q", "below").ready == ["1"]


def test_an_exchange_with_strict_keys_further_down_does_not_mind(peer: Peer):
    peer.connection.publish(1, "recent", "not strict!", "1")
    declare(peer, "below", "fanout", x_strict_keys=True)
    queue = bind(peer, "q", "below", "k")
    peer.call(ExchangeBind(source="recent", destination="below"))
    assert queue.ready == ["1"]


def test_an_exchange_that_is_bound_to_itself_ends(peer: Peer):
    publish(peer, "1")
    peer.call(ExchangeBind(source="recent", destination="recent"))
    assert bind(peer, "q").ready == ["1", "1"]


def queue_bound(peer: Peer, queue: str) -> FakeQueue:
    """Begin to bind a queue; the history is given in turns to come."""
    peer.call(QueueDeclare(queue=queue))
    peer.say(QueueBind(queue=queue, exchange="recent", routing_key=queue))
    return found(peer, queue)


def test_it_is_given_in_steps_while_others_are_served(world: World, peer: Peer):
    publish(peer, *"12345")
    other = world.peer()
    world.cut_everywhere()
    queue = queue_bound(peer, "q")
    assert queue.ready == ["1"]
    assert peer.connection.jobs == 1  # so that its input waits
    assert peer.sent(QueueBindOk) == []
    # What others publish meanwhile is no history of this binding.
    publish(other, "6")
    second = queue_bound(other, "r")
    for _ in range(10):
        world.turn()
    assert queue.ready == ["1", "6", "2", "3", "4", "5"]
    assert second.ready == ["1", "2", "3", "4", "5", "6"]
    assert len(peer.sent(QueueBindOk)) == len(other.sent(QueueBindOk)) == 1
    assert peer.connection.jobs == 0


def test_an_exchange_is_given_it_in_steps(world: World, peer: Peer):
    publish(peer, *"123")
    declare(peer, "below", "fanout")
    queue = bind(peer, "q", "below")
    world.cut_everywhere()
    peer.say(ExchangeBind(source="recent", destination="below"))
    assert queue.ready == ["1"]
    assert peer.sent(ExchangeBindOk) == []
    for _ in range(3):
        world.turn()
    assert queue.ready == ["1", "2", "3"]
    assert len(peer.sent(ExchangeBindOk)) == 1


@pytest.mark.parametrize(
    "end",
    [
        QueueDelete(queue="q"),
        ExchangeDelete(exchange="recent"),
        QueueUnbind(queue="q", exchange="recent", routing_key="q"),
    ],
)
def test_it_ends_in_order_when_one_end_is_gone(world: World, peer: Peer, end: Method):
    publish(peer, *"12345")
    other = world.peer()
    world.cut_everywhere()
    queue = queue_bound(peer, "q")
    other.say(end)
    for _ in range(6):
        world.turn()
    assert not set(queue.ready) & set("2345")
    assert len(peer.sent(QueueBindOk)) == 1
    assert peer.connection.jobs == 0
    assert not world.engine.jobs.waiting


def test_a_binding_that_is_made_anew_meanwhile_gets_it_once(world: World, peer: Peer):
    publish(peer, *"12345")
    other = world.peer()
    world.cut_everywhere()
    queue = queue_bound(peer, "q")
    assert queue.ready == ["1"]
    other.say(QueueUnbind(queue="q", exchange="recent", routing_key="q"))
    other.say(QueueBind(queue="q", exchange="recent", routing_key="q"))
    for _ in range(10):
        world.turn()
    assert queue.ready == ["1", *"12345"]
    assert len(peer.sent(QueueBindOk)) == len(other.sent(QueueBindOk)) == 1


def test_an_equal_bind_is_answered_when_the_queue_has_the_history(world: World, peer: Peer):
    publish(peer, *"12345")
    other = world.peer()
    world.cut_everywhere()
    queue = queue_bound(peer, "q")
    other.say(QueueBind(queue="q", exchange="recent", routing_key="q"))
    assert queue.ready == ["1"]
    assert other.sent(QueueBindOk) == []
    for _ in range(10):
        world.turn()
    assert queue.ready == [*"12345"]
    assert len(peer.sent(QueueBindOk)) == len(other.sent(QueueBindOk)) == 1
    assert not world.engine.jobs.waiting


def test_an_equal_bind_is_refused_if_the_history_is(world: World, peer: Peer):
    publish(peer, *"12345")
    other = world.peer()
    world.cut_everywhere()
    queue_bound(peer, "q")
    other.say(QueueBind(queue="q", exchange="recent", routing_key="q"))
    world.engine.connections.publishers_blocked = True
    for _ in range(10):
        world.turn()
    assert other.sent(QueueBindOk) == []
    assert "the disk is full" in other.sent(ChannelClose)[0].reply_text


def test_a_queue_that_is_gone_gets_no_more_for_one_of_its_name(world: World, peer: Peer):
    publish(peer, *"12345")
    other = world.peer()
    queue = queue_before_a_new_one(world, peer, other)
    for _ in range(10):
        world.turn()
    assert found(other, "q").ready == ["1", "2", "3", "4", "5"]
    assert found(other, "q") is not queue
    assert not set(queue.ready) & set("2345")


def queue_before_a_new_one(world: World, peer: Peer, other: Peer) -> FakeQueue:
    """Begin to bind a queue; delete it, and begin to bind another one of that name."""
    world.cut_everywhere()
    queue = queue_bound(peer, "q")
    world.engine.jobs.clock.monotonic_ns = None
    other.call(QueueDelete(queue="q"))
    other.call(QueueDeclare(queue="q"))
    world.cut_everywhere()
    other.say(QueueBind(queue="q", exchange="recent", routing_key="q"))
    return queue


@pytest.mark.parametrize(
    ("alarm", "text"), [("memory", "memory_watermark"), ("disk", "disk_free_min")]
)
def test_the_rest_is_refused_when_the_broker_runs_low(
    world: World, peer: Peer, alarm: str, text: str
):
    publish(peer, *"12345")
    world.cut_everywhere()
    queue = queue_bound(peer, "q")
    world.broker.set_alarm(alarm, True)
    for _ in range(3):
        world.turn()
    assert queue.ready == ["1"]
    (close,) = peer.sent(ChannelClose)
    assert (close.reply_code, close.class_id) == (406, 50)
    assert text in close.reply_text
    # There is no such binding, and bound once more it gets all.
    assert not peer.session.vhost.exchange("recent").outgoing
    world.broker.set_alarm(alarm, False)
    again = world.peer()
    again.say(QueueBind(queue="q", exchange="recent", routing_key="q"))
    for _ in range(5):
        world.turn()
    assert queue.ready == ["1", *"12345"]


def test_it_goes_with_its_exchange(world: World, peer: Peer):
    publish(peer, "1")
    peer.call(ExchangeDelete(exchange="recent"))
    (history,) = histories(world)
    assert history.retired
    declare(peer, "recent")
    assert bind(peer, "q").ready == []


def test_it_goes_with_its_virtual_host(world: World):
    peer = world.peer(vhost="other")
    declare(peer, "recent")
    drop_vhost(world.broker, "other")
    assert [each.retired for each in histories(world)] == [True]


# ------------------------------------------------------------------ what an exchange remembers

ONCE = encode_properties(Properties(headers={"x-deduplication-header": "a"}))


def memory(world: World, name: str) -> FakeCache:
    found = [one for one in world.engine.queues if one.name == f"cache of {name}"]
    return fake_of(found[0], FakeCache)


def test_a_message_is_remembered_where_it_comes_by_and_goes_elsewhere_when_it_comes_again(
    world: World, peer: Peer
):
    declare(peer, "other", "fanout")
    declare(peer, "once", "x-message-deduplication", x_cache_size=5, alternate_exchange="other")
    declare(peer, "above", "fanout")
    peer.call(ExchangeBind(destination="once", source="above"))
    bind(peer, "new", "once")
    bind(peer, "again", "other")
    vhost = peer.session.vhost
    cache = memory(world, "once")
    exchange = vhost.exchange("above")
    new, again = found(peer, "new"), found(peer, "again")
    assert finished(vhost.routing.routing(exchange, ["k"], ONCE)) == as_engine([new, cache])
    cache.known.add(ONCE)
    assert finished(vhost.routing.routing(exchange, ["k"], ONCE)) == as_engine([again, cache])
    assert finished(vhost.routing.routing(exchange, ["k"], NOT_KEPT)) == as_engine([new])
    # Nobody who is bound later gets what is only remembered.
    assert bind(peer, "late", "once").ready == []


def test_it_is_forgotten_with_the_exchange_or_the_virtual_host(world: World, peer: Peer):
    declare(peer, "one", "x-message-deduplication", x_cache_size=5)
    declare(peer, "two", "x-message-deduplication", x_cache_size=5)
    one, two = memory(world, "one"), memory(world, "two")
    peer.call(ExchangeDelete(exchange="one"))
    assert (one.retired, two.retired) == (True, False)
    drop_vhost(world.broker, "/")
    assert two.retired
