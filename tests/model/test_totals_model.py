"""Running totals against a walk through everything, after any order of events.

What `/metrics` shows comes from totals that are kept where things happen. Whoever adds a way for a
message, a consumer or a binding to come or go, and forgets them, is told so here.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.broker.at_once import drop_policy, set_policy
from tests.engine.frames import ack, longstr, nack, properties, publish, table
from tests.management.clients import Client
from tests.management.conftest import World

from leporid.amqp.methods import (
    BasicConsume,
    BasicGet,
    BasicQos,
    ChannelClose,
    ChannelOpen,
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from leporid.amqp.tables import Value
from leporid.broker.policy.policies import make_policy
from leporid.engine.queue.lease import Lease

DLX: dict[str, Value] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "full"}
RETRIES: dict[str, Value] = {"x-delayed-retry-type": "all", "x-delayed-retry-min": 10}
QUEUES: dict[str, dict[str, Value]] = {
    "plain": {},
    "short": {"x-max-length": 2, **DLX},
    "full": {"x-max-length": 1, "x-overflow": "reject-publish"},
    "retried": {**RETRIES, **DLX},
    "unique": {"x-message-deduplication": True},
    "ordered": {"x-max-priority": 2},
    "dying": {"x-message-ttl": 5, **DLX},
    "unused": {"x-expires": 20},
    "stream": {"x-queue-type": "stream"},
}
EXCHANGES: dict[str, tuple[str, dict[str, Value]]] = {
    "once": ("x-message-deduplication", {"x-cache-size": 2}),
    "late": ("x-delayed-message", {"x-delayed-type": "fanout"}),
    "recent": ("x-recent-history", {}),
}
ANY_QUEUE = st.sampled_from(list(QUEUES))
RETURNING = st.sampled_from(["retried", "stream"])
ANY_EXCHANGE = st.sampled_from(list(EXCHANGES))


class Counted(Client):
    """A client that publishes and settles, too."""

    channel = 0

    def open(self) -> None:
        """Open another channel, if the last one was closed by whomever."""
        if self.channel not in self.session.channels:
            self.channel += 1
            self.say(ChannelOpen(), self.channel)
            self.say(BasicQos(prefetch_count=3), self.channel)

    def feed(self, data: bytes) -> None:
        self.connection_engine.feed(data)


class Totals(RuleBasedStateMachine):
    """A broker, and clients of it."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.clients: list[Counted] = []
        self.leases: list[Lease] = []
        self.steps = 0

    def seldom(self) -> bool:
        """What ends something comes after many steps that begin and do something."""
        self.steps += 1
        return self.steps % 50 < 10

    @initialize()
    def begin(self) -> None:
        for name in QUEUES:
            self.declare(name)
        for name in EXCHANGES:
            self.declare_exchange(name)
            self.bind("plain", name)
            self.bind("full", name)

    def client(self) -> Counted:
        """The last one, with a channel that is open."""
        if not self.clients or not self.clients[-1].session.opened:
            self.connect()
        self.clients[-1].open()
        return self.clients[-1]

    def say(self, method: Any) -> None:
        client = self.client()
        client.say(method, client.channel)
        self.world.sync()  # a reply that waits for the disk keeps the client waiting

    # ------------------------------------------------------------- what clients do

    @rule()
    def connect(self) -> None:
        client = Counted(self.world)
        client.handshake()
        client.open()
        self.clients.append(client)

    @precondition(lambda self: self.seldom())
    @rule()
    def close_channel(self) -> None:
        self.say(ChannelClose(200, "", 0, 0))

    @precondition(lambda self: self.seldom())
    @rule()
    def disconnect(self) -> None:
        if self.clients:
            self.clients.pop().session.on_lost()
            self.world.turn()

    @rule(name=ANY_QUEUE)
    def declare(self, name: str) -> None:
        durable = name in ("stream", "full", "unique", "retried")
        self.say(QueueDeclare(queue=name, durable=durable, arguments=QUEUES[name]))

    @precondition(lambda self: self.seldom())
    @rule(name=ANY_QUEUE)
    def delete(self, name: str) -> None:
        self.say(QueueDelete(queue=name))

    @precondition(lambda self: self.seldom())
    @rule(name=ANY_QUEUE)
    def purge(self, name: str) -> None:
        self.say(QueuePurge(queue=name))

    @rule(name=ANY_EXCHANGE)
    def declare_exchange(self, name: str) -> None:
        kind, arguments = EXCHANGES[name]
        durable = name == "once"
        self.say(ExchangeDeclare(exchange=name, type=kind, durable=durable, arguments=arguments))

    @precondition(lambda self: self.seldom())
    @rule(name=ANY_EXCHANGE)
    def delete_exchange(self, name: str) -> None:
        self.say(ExchangeDelete(exchange=name))

    @rule(queue=ANY_QUEUE, exchange=ANY_EXCHANGE)
    def bind(self, queue: str, exchange: str) -> None:
        self.say(QueueBind(queue=queue, exchange=exchange))

    @precondition(lambda self: self.seldom())
    @rule(queue=ANY_QUEUE, exchange=ANY_EXCHANGE)
    def unbind(self, queue: str, exchange: str) -> None:
        self.say(QueueUnbind(queue=queue, exchange=exchange))

    @rule(
        to=ANY_QUEUE | ANY_EXCHANGE,
        count=st.integers(1, 4),
        persistent=st.booleans(),
        delay=st.sampled_from([0, 0, 15]),
        key=st.sampled_from("ab"),
    )
    def publish(self, to: str, count: int, persistent: bool, delay: int, key: str) -> None:
        headers = {"x-deduplication-header": longstr(key)}
        if delay:
            headers["x-delay"] = b"I" + delay.to_bytes(4, "big")
        raw = properties(headers=table(**headers), delivery_mode=2 if persistent else 1)
        exchange = to if to in EXCHANGES else ""
        for _ in range(count):
            client = self.client()
            client.feed(publish(client.channel, to, b"body", raw=raw, exchange=exchange))
        self.world.turn()

    @rule(name=ANY_QUEUE, no_ack=st.booleans(), group=st.booleans())
    def consume(self, name: str, no_ack: bool, group: bool) -> None:
        arguments: dict[str, Value] = {}
        if name == "stream":
            no_ack, arguments = False, {"x-stream-offset": "first"}
            if group:
                arguments |= {"x-group": "g", "x-delayed-retry-min": 10}
        self.say(BasicConsume(queue=name, no_ack=no_ack, arguments=arguments))

    @rule(name=ANY_QUEUE, no_ack=st.booleans())
    def get(self, name: str, no_ack: bool) -> None:
        self.say(BasicGet(queue=name, no_ack=no_ack))

    @rule(how=st.sampled_from(["ack", "requeue", "reject"]))
    def settle(self, how: str) -> None:
        """Everything that is unacked on the channel."""
        client = self.client()
        if how == "ack":
            client.feed(ack(client.channel, 0, True))
        else:
            client.feed(nack(client.channel, 0, True, how == "requeue"))
        self.world.turn()

    @rule(name=RETURNING | ANY_QUEUE, how=st.sampled_from(["ack", "requeue", "reject"]))
    def handle(self, name: str, how: str) -> None:
        """Something comes, is delivered, and settled."""
        self.publish(name, 2, True, 0, "a")
        self.sync()
        self.consume(name, False, True)
        self.settle(how)

    @rule(count=st.integers(1, 3))
    def publish_later(self, count: int) -> None:
        self.publish("late", count, True, 15, "a")

    # ------------------------------------------------------------- what others do

    @rule(name=ANY_QUEUE, count=st.integers(1, 3))
    def lease(self, name: str, count: int) -> None:
        queue: Any = self.world.vhost.find_queue(name)
        if queue is not None and queue.stream is None:
            self.leases.append(Lease(queue.engine, count))

    @rule(done=st.booleans())
    def end_lease(self, done: bool) -> None:
        if self.leases:
            lease = self.leases.pop()
            (lease.acknowledge if done else lease.release)(1)
            (lease.acknowledge if done else lease.release)()
            self.world.turn()

    @rule(length=st.sampled_from([None, 1]))
    def policy(self, length: int | None) -> None:
        if length is None and self.world.vhost.policies.find("p", operator=False):
            drop_policy(self.world.vhost, "p")
        elif length is not None:
            set_policy(self.world.vhost, make_policy("p", "^plain$", {"max-length": length}))
        self.world.turn()

    @rule(milliseconds=st.sampled_from([1, 10, 30]))
    def wait(self, milliseconds: int) -> None:
        clock = self.world.engine.clock
        clock.now_ms += milliseconds
        clock.wall_ms += milliseconds
        broker = self.world.broker
        for timed in (broker.unused, broker.handovers, broker.cancels):
            timed.run(clock.now_ms)
        self.world.turn()

    @rule()
    def sync(self) -> None:
        self.world.sync()
        self.world.turn()

    # ------------------------------------------------------------- the walk

    @invariant()
    def totals_are_what_a_walk_finds(self) -> None:
        broker, vhost = self.world.broker, self.world.vhost
        found, all_ = vhost.statistics(), broker.statistics()
        queues = list(vhost.queues())
        stores: list[Any] = [each.store for each in vhost.delay_stores]
        groups: list[Any] = [each.retries for each in vhost.groups if each.retries is not None]
        kept: list[Any] = vhost.histories.of(
            each.name for each in vhost.exchanges() if each.type == "x-message-deduplication"
        )
        assert (
            found.queue_count,
            found.consumer_count,
            found.binding_count,
            found.ready_count,
            found.unacked_count,
            found.held_count,
            found.backlog,
            found.delays.waiting,
            found.remembered,
            found.retrying,
            all_.channel_count,
        ) == (
            len(queues),
            sum(len(queue.subscriptions) for queue in queues),
            sum(len(each.outgoing) for each in vhost.exchanges()),
            sum(queue.engine.ready_count for queue in queues),
            sum(queue.engine.unacked_count for queue in queues),
            sum(queue.engine.held_count for queue in queues),
            sum(queue.engine.backlog_count for queue in queues),
            sum(store.ready_count for store in stores),
            sum(each.engine.ready_count for each in kept),
            sum(each.engine.waiting for each in groups),
            sum(len(session.channels) for session in broker.sessions),
        )


Totals.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestTotals = pytest.mark.slow(Totals.TestCase)


def test_a_stream_goes_that_a_group_reads():
    steps = Totals()
    try:
        steps.begin()
        steps.connect()
        steps.consume(group=True, name="stream", no_ack=False)
        steps.totals_are_what_a_walk_finds()
        steps.delete("stream")
        steps.totals_are_what_a_walk_finds()
    finally:
        steps.teardown()
