"""A broker that is started again has what was recorded."""

from __future__ import annotations

import itertools
import logging
from dataclasses import astuple, dataclass, field

import pytest
from tests.broker.engine_fake import FakeCache, FakeQueue, fake_of
from tests.broker.peer import World

from leporid.amqp.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueUnbind,
)
from leporid.amqp.tables import Value, encode_table
from leporid.broker.changes import (
    Change,
    DropBinding,
    DropCache,
    DropDelays,
    DropExchange,
    DropFilterClass,
    DropGroup,
    DropGroupRetries,
    DropPolicy,
    DropQueue,
    DropReaderOffset,
    DropStaging,
    DropVhost,
    PutBinding,
    PutCache,
    PutDelays,
    PutExchange,
    PutFilterClass,
    PutGroup,
    PutGroupRetries,
    PutPolicy,
    PutQueue,
    PutReaderOffset,
    PutStaging,
    PutVhost,
)
from leporid.broker.restore import (
    RecordedBinding,
    RecordedCache,
    RecordedDelays,
    RecordedExchange,
    RecordedFilterClass,
    RecordedGroup,
    RecordedGroupRetries,
    RecordedPolicy,
    RecordedQueue,
    RecordedReaderOffset,
    RecordedStaging,
)

EMPTY = encode_table({})


@dataclass
class Recording:
    """Applies changes to sets, which is all that storage does too."""

    vhosts: list[str] = field(default_factory=list)
    exchanges: list[RecordedExchange] = field(default_factory=list)
    caches: list[RecordedCache] = field(default_factory=list)
    delays: list[RecordedDelays] = field(default_factory=list)
    queues: list[RecordedQueue] = field(default_factory=list)
    bindings: list[RecordedBinding] = field(default_factory=list)
    reader_offsets: list[RecordedReaderOffset] = field(default_factory=list)
    groups: list[RecordedGroup] = field(default_factory=list)
    group_retries: list[RecordedGroupRetries] = field(default_factory=list)
    policies: list[RecordedPolicy] = field(default_factory=list)
    stagings: list[RecordedStaging] = field(default_factory=list)
    filter_classes: list[RecordedFilterClass] = field(default_factory=list)
    next_queue_id: int = 1

    def apply(self, change: Change) -> None:  # noqa: C901 - one case each
        match change:
            case PutVhost(name):
                self.vhosts.append(name)
            case DropVhost(name):
                self.vhosts.remove(name)
                inside = [each[0] for each in self.exchanges] + [each[1] for each in self.queues]
                assert name not in inside
            case PutExchange():
                self.exchanges.append(astuple(change))
            case DropExchange(vhost, name):
                self.exchanges = [each for each in self.exchanges if each[:2] != (vhost, name)]
            case PutQueue():
                self.queues.append(astuple(change))
                self.next_queue_id = max(self.next_queue_id, change.id + 1)
            case DropQueue(number):
                self.queues = [each for each in self.queues if each[0] != number]
            case PutStaging() | DropStaging():
                self._change_staging(change)
            case PutCache() | DropCache() | PutDelays() | DropDelays():
                self._change_hidden(change)
            case PutBinding():
                self.bindings.append(astuple(change))
            case DropBinding():
                self.bindings.remove(astuple(change))
            case PutPolicy() | DropPolicy():
                self._change_policy(change)
            case PutReaderOffset() | DropReaderOffset():
                self._change_reader(change)
            case PutGroup() | DropGroup():
                self._change_group(change)
            case PutGroupRetries() | DropGroupRetries():
                self._change_group_retries(change)
            case PutFilterClass() | DropFilterClass():
                self._change_filter_class(change)

    def _change_reader(self, change: PutReaderOffset | DropReaderOffset) -> None:
        key = (change.vhost, change.stream, change.reader)
        self.reader_offsets = [each for each in self.reader_offsets if each[:3] != key]
        if isinstance(change, PutReaderOffset):
            self.reader_offsets.append(astuple(change))

    def _change_group(self, change: PutGroup | DropGroup) -> None:
        key = (change.vhost, change.stream, change.name)
        self.groups = [each for each in self.groups if each[:3] != key]
        if isinstance(change, PutGroup):
            self.groups.append(astuple(change))

    def _change_group_retries(self, change: PutGroupRetries | DropGroupRetries) -> None:
        self.group_retries = [each for each in self.group_retries if each[0] != change.id]
        if isinstance(change, PutGroupRetries):
            self.group_retries.append(astuple(change))
            self.next_queue_id = max(self.next_queue_id, change.id + 1)

    def _change_hidden(self, change: PutCache | DropCache | PutDelays | DropDelays) -> None:
        there: list[tuple[int, str, str]] = (
            self.caches if isinstance(change, PutCache | DropCache) else self.delays
        )
        there[:] = [each for each in there if each[0] != change.id]
        if isinstance(change, PutCache | PutDelays):
            there.append(astuple(change))
            self.next_queue_id = max(self.next_queue_id, change.id + 1)

    def _change_filter_class(self, change: PutFilterClass | DropFilterClass) -> None:
        self.filter_classes = [each for each in self.filter_classes if each[0] != change.name]
        if isinstance(change, PutFilterClass):
            self.filter_classes.append(astuple(change))

    def _change_staging(self, change: PutStaging | DropStaging) -> None:
        self.stagings = [each for each in self.stagings if each[0] != change.id]
        if isinstance(change, PutStaging):
            self.stagings.append(astuple(change))
            self.next_queue_id = max(self.next_queue_id, change.id + 1)

    def _change_policy(self, change: PutPolicy | DropPolicy) -> None:
        key = (change.vhost, change.operator, change.name)
        self.policies = [each for each in self.policies if each[:3] != key]
        if isinstance(change, PutPolicy):
            self.policies.append(astuple(change))


def recorded(*, drop_other: bool = False) -> tuple[World, Recording]:
    """Make a world whose changes are in a recording."""
    world, recording = World(), Recording(vhosts=["/", "other"])
    peer, other = world.peer(), world.peer(vhost="other")
    peer.call(ExchangeDeclare(exchange="e", type="topic", durable=True, internal=True))
    peer.call(ExchangeDeclare(exchange="gone", durable=True))
    peer.call(ExchangeDeclare(exchange="transient"))
    arguments: dict[str, Value] = {"x-max-length": 5, "x-queue-type": "quorum"}
    peer.call(QueueDeclare(queue="q", durable=True, arguments=arguments))
    peer.call(QueueDeclare(queue="gone", durable=True))
    peer.call(QueueDeclare(queue="transient"))
    for queue, exchange in itertools.product(
        ("q", "gone", "transient"), ("e", "gone", "transient", "amq.direct")
    ):
        for key in ("a.*", "b"):
            bind = QueueBind(queue=queue, exchange=exchange, routing_key=key)
            peer.call(bind)
    peer.call(ExchangeBind(destination="e", source="amq.fanout"))
    peer.call(QueueUnbind(queue="q", exchange="amq.direct", routing_key="a.*"))
    peer.call(QueueDelete(queue="gone"))
    peer.call(ExchangeDelete(exchange="gone"))
    other.call(QueueDeclare(queue="q", durable=True, auto_delete=True))
    if drop_other:
        world.broker.drop_vhost("other")
    for change in world.changes:
        recording.apply(change)
    return world, recording


def test_everything_durable_is_back_and_nothing_else():
    _, recording = recorded()
    world = World()
    world.broker.restore(recording)
    assert world.changes == []
    peer, other = world.peer(), world.peer(vhost="other")
    arguments: dict[str, Value] = {"x-max-length": 5, "x-queue-type": "quorum"}
    again = QueueDeclare(queue="q", durable=True, arguments=arguments)
    assert peer.call(again) == QueueDeclareOk("q", 0, 0)
    again = QueueDeclare(queue="q", durable=True, auto_delete=True)
    assert other.call(again) == QueueDeclareOk("q", 0, 0)
    peer.call(ExchangeDeclare(exchange="e", type="topic", durable=True, internal=True))
    vhost = world.broker.vhosts["/"]
    assert [queue.name for queue in vhost.queues()] == ["q"]
    assert vhost.find_exchange("gone") is vhost.find_exchange("transient") is None
    assert peer.connection.publish(1, "amq.fanout", "a.b") == 1
    assert peer.connection.publish(1, "amq.fanout", "c") == 0
    assert peer.connection.publish(1, "amq.direct", "b") == 1
    assert peer.connection.publish(1, "amq.direct", "a.*") == 0
    assert world.changes == []


def test_queues_keep_their_numbers_and_new_ones_get_others():
    first, recording = recorded()
    world = World()
    world.broker.restore(recording)
    old, new = (each.broker.vhosts["/"].queue("q") for each in (first, world))
    assert old.id == new.id != 0
    engine = fake_of(new.engine, FakeQueue)
    assert (engine.id, engine.durable) == (old.id, True)
    world.peer().call(QueueDeclare(queue="new", durable=True))
    assert world.broker.vhosts["/"].queue("new").id == recording.next_queue_id


def test_a_dropped_vhost_stays_dropped():
    _, recording = recorded(drop_other=True)
    assert recording.vhosts == ["/"]
    assert all(each[1] == "/" for each in recording.queues)


def test_what_makes_no_sense_is_left_out_and_reported(caplog: pytest.LogCaptureFixture):
    recording = Recording(
        vhosts=["/"],
        exchanges=[
            ("/", "e", "x-future", False, False, EMPTY),
            ("lost", "e", "direct", False, False, EMPTY),
            ("/", "good", "direct", False, False, EMPTY),
        ],
        queues=[(1, "/", "q", False, b"\0\0\0\x09"), (2, "/", "good", False, EMPTY)],
        bindings=[
            ("/", "e", "good", "queue", "k", EMPTY),
            ("/", "good", "q", "queue", "k", EMPTY),
            ("/", "good", "good", "queue", "k", EMPTY),
            ("/", "amq.direct", "good", "exchange", "k", EMPTY),
        ],
        next_queue_id=3,
    )
    world = World()
    with caplog.at_level(logging.ERROR):
        world.broker.restore(recording)
    assert len(caplog.records) == 5
    assert world.peer().connection.publish(1, "good", "k") == 1
    assert world.peer().connection.publish(1, "amq.direct", "k") == 1


def deduplicating(name: str, *, durable: bool = True, **more: Value) -> ExchangeDeclare:
    arguments = {"x-cache-size": 5, **{key.replace("_", "-"): more[key] for key in more}}
    kind = "x-message-deduplication"
    return ExchangeDeclare(exchange=name, type=kind, durable=durable, arguments=arguments)


def test_what_a_durable_exchange_remembers_has_the_number_that_it_had():
    world, recording = World(), Recording(vhosts=["/"])
    peer = world.peer()
    peer.call(deduplicating("one"))
    peer.call(deduplicating("gone"))
    peer.call(deduplicating("two", x_cache_ttl=9))
    peer.call(deduplicating("passing", durable=False))
    peer.call(deduplicating("memory", x_cache_persistence="memory"))
    peer.call(ExchangeDelete(exchange="gone"))
    for change in world.changes:
        recording.apply(change)
    assert [exchange for _, _, exchange in recording.caches] == ["one", "two"]
    again = World()
    again.broker.restore(recording)
    assert again.changes == []
    caches = {
        one.id: (one.name, one.durable, one.limits)
        for one in again.plane.queues
        if isinstance(one, FakeCache) and one.id
    }
    assert caches == {
        recording.caches[0][0]: ("cache of one", True, {"size": 5, "ttl_ms": None}),
        recording.caches[1][0]: ("cache of two", True, {"size": 5, "ttl_ms": 9}),
    }
    assert again.broker.new_queue_id() > max(caches)
    again.peer().call(ExchangeDelete(exchange="one"))
    assert [each for each in again.changes if isinstance(each, DropCache)] == [
        DropCache(recording.caches[0][0])
    ]
    assert [one.retired for one in again.plane.queues if one.name == "cache of one"] == [True]
