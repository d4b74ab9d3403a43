"""A virtual host against a model: whatever happens, the record adds up to what is durable."""

from __future__ import annotations

import logging

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.broker.engine_fake import fake_of
from tests.broker.fake_route_cache import FakeRouteCache
from tests.broker.peer import Peer, World
from tests.broker.recording import Recording

from leporid.amqp.errors import NotFound
from leporid.amqp.methods import (
    BasicConsume,
    ChannelClose,
    ChannelOpen,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from leporid.amqp.properties import Properties, encode_properties
from leporid.broker.vhost import VirtualHost

NAMES = st.sampled_from(["a", "b", "c"])
KEYS = st.sampled_from(["x", "y"])


def picture(vhost: VirtualHost, *, durable_only: bool) -> set[tuple[object, ...]]:
    """Return what there is, as values."""
    found: set[tuple[object, ...]] = set()
    exchanges = vhost._topology.exchanges
    kept = {
        name for name in exchanges for each in [exchanges[name]] if each.durable or not durable_only
    }
    queues = {each.name: each for each in vhost.queues() if each.durable or not durable_only}
    for name in kept:
        found.add(("exchange", name, exchanges[name].auto_delete))
        for binding in exchanges[name].outgoing:
            ends = queues if binding.destination_kind == "queue" else kept
            if binding.destination in ends:
                found.add(("binding", name, binding.destination_kind, binding.destination,
                           binding.key))  # fmt: skip
    found.update(("queue", queue.id, queue.name, queue.auto_delete) for queue in queues.values())
    return found


class Declarations(RuleBasedStateMachine):
    """Random declarations; a broker restored from the record has the durable part of this one."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.peer = self.world.peer()

    def say(self, method) -> None:
        for answer in self.peer.say(method):
            if isinstance(answer, ChannelClose):
                self.peer = self.world.peer()

    @rule(name=NAMES, durable=st.booleans(), auto_delete=st.booleans())
    def declare_exchange(self, name, durable, auto_delete):
        self.say(ExchangeDeclare(exchange=name, type="topic", durable=durable,
                                 auto_delete=auto_delete))  # fmt: skip

    @rule(name=NAMES, durable=st.booleans(), auto_delete=st.booleans())
    def declare_queue(self, name, durable, auto_delete):
        self.say(QueueDeclare(queue=name, durable=durable, auto_delete=auto_delete))

    @rule(queue=NAMES, exchange=NAMES, key=KEYS)
    def bind(self, queue, exchange, key):
        self.say(QueueBind(queue=queue, exchange=exchange, routing_key=key))

    @rule(queue=NAMES, exchange=NAMES, key=KEYS)
    def unbind(self, queue, exchange, key):
        self.say(QueueUnbind(queue=queue, exchange=exchange, routing_key=key))

    @rule(source=NAMES, destination=NAMES)
    def bind_exchange(self, source, destination):
        self.say(ExchangeBind(source=source, destination=destination))

    @rule(source=NAMES, destination=NAMES)
    def unbind_exchange(self, source, destination):
        self.say(ExchangeUnbind(source=source, destination=destination))

    @rule(name=NAMES, unused=st.booleans())
    def delete_queue(self, name, unused):
        self.say(QueueDelete(queue=name, if_unused=unused))

    @rule(name=NAMES, unused=st.booleans())
    def delete_exchange(self, name, unused):
        self.say(ExchangeDelete(exchange=name, if_unused=unused))

    @rule(name=NAMES)
    def consume(self, name):
        self.say(BasicConsume(queue=name))

    @rule()
    def drop(self):
        self.peer.session.on_lost()
        self.peer = self.world.peer()

    @invariant()
    def the_record_adds_up(self):
        recording = Recording(["/", "other"])
        for change in self.world.changes:
            recording.apply(change)
        again = World()
        again.broker.restore(recording.snapshot())
        now = picture(self.world.broker.vhosts["/"], durable_only=True)
        assert picture(again.broker.vhosts["/"], durable_only=False) == now

    @invariant()
    def auto_delete_queues_were_never_left_by_their_last_consumer(self):
        for queue in self.world.broker.vhosts["/"].queues():
            engine = self.world.queue(queue.name)
            assert len(queue.subscriptions) == len(engine.consumers)
            assert not engine.retired


TestDeclarations = Declarations.TestCase
TestDeclarations.settings = settings(max_examples=40, stateful_step_count=30)


@pytest.fixture
def world() -> World:
    return World()


def test_virtual_hosts_are_apart(world: World):
    here, there = world.peer(), world.peer(vhost="other")
    here.call(QueueDeclare(queue="q"))
    here.call(ExchangeDeclare(exchange="e"))
    assert there.connection.publish(1, "", "q") == 0
    text = there.refused(QueueDeclare(queue="q", passive=True))
    assert text == "NOT_FOUND - no queue 'q' in vhost 'other'"
    with pytest.raises(NotFound, match="no exchange 'e' in vhost 'other'"):
        world.broker.vhosts["other"].exchange("e")


def test_headers_are_looked_at_only_where_they_matter(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    peer.call(QueueBind(queue="q", exchange="amq.headers", arguments={"h": "yes"}))
    yes = encode_properties(Properties(headers={"h": "yes"}))
    assert peer.connection.publish(1, "amq.headers", "", properties=yes) == 1
    assert peer.connection.publish(1, "amq.headers", "") == 0
    peer.call(ExchangeBind(destination="amq.headers", source="amq.fanout"))
    assert peer.connection.publish(1, "amq.fanout", "", properties=yes) == 1
    # Where nobody looks at them, they are not even decoded.
    assert peer.connection.publish(1, "", "q", properties=b"broken") == 1


@pytest.mark.parametrize("copies", [(), ("also bad",)])
def test_a_key_that_the_exchange_refuses_is_the_publishers_fault(
    world: World, copies: tuple[str, ...]
):
    peer = world.peer()
    peer.call(ExchangeDeclare(exchange="s", type="topic", arguments={"x-strict-keys": True}))
    peer.connection.publish(1, "s", "not strict!", copies=copies)
    (close,) = peer.sent(ChannelClose)
    assert (close.reply_code, close.class_id, close.method_id) == (406, 60, 40)


def test_a_deleted_exchange_is_asked_for_again(world: World):
    peer: Peer = world.peer()
    peer.call(ExchangeDeclare(exchange="e"))
    source = peer.session.route_cache("e")
    peer.call(ExchangeDelete(exchange="e"))
    assert fake_of(source, FakeRouteCache).retired


def test_statistics_leave_reply_queues_out(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    peer.call(QueueBind(queue="q", exchange="amq.fanout"))
    peer.call(ChannelOpen(), 2)
    peer.call(BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True), 2)
    statistics = world.broker.vhosts["/"].statistics()
    assert (statistics.name, statistics.exchange_count, statistics.binding_count) == ("/", 7, 1)
    assert (statistics.queue_count, statistics.consumer_count) == (1, 0)
    assert repr(world.broker.vhosts["/"]) == "<VirtualHost '/' queues=2>"


def test_what_a_quorum_queue_is_here_is_said_once(caplog: pytest.LogCaptureFixture):
    world = World()
    with caplog.at_level(logging.WARNING):
        for name in ("one", "two"):
            declare = QueueDeclare(queue=name, durable=True, arguments={"x-queue-type": "quorum"})
            world.peer().call(declare)
            world.peer(vhost="other").call(declare)
    [record] = caplog.records
    assert record.message.startswith("queue 'one' in vhost '/' is a quorum queue: there is one nod")
