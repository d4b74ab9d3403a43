"""What is recorded of durable things, and of every kind what storage and restart rely on."""

from __future__ import annotations

from graphlib import TopologicalSorter

from tests.broker.peer import World
from tests.broker.recording import puts

from leporid.amqp.methods import (
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from leporid.amqp.tables import Value, encode_table
from leporid.broker.stored import (
    KINDS,
    StoredBinding,
    StoredExchange,
    StoredGroup,
    StoredPolicy,
    StoredQueue,
    StoredVhost,
)
from leporid.durable import Drop, Put


def test_durable_things_come_and_go():
    world = World()
    peer = world.peer()
    arguments: dict[str, Value] = {"alternate-exchange": "a"}
    bound: dict[str, Value] = {"x": True}
    name = "durable"
    peer.call(ExchangeDeclare(exchange=name, type="topic", durable=True, arguments=arguments))
    peer.call(QueueDeclare(queue=name, durable=True))
    peer.call(QueueBind(queue=name, exchange=name, routing_key="k", arguments=bound))
    peer.call(QueueUnbind(queue=name, exchange=name, routing_key="k", arguments=bound))
    peer.call(QueueDelete(queue=name))
    peer.call(ExchangeDelete(exchange=name))
    binding = StoredBinding("/", name, name, "queue", "k", encode_table(bound))
    exchange = StoredExchange("/", name, "topic", False, False, encode_table(arguments))
    assert world.changes == [
        Put(exchange),
        Put(StoredQueue(1, "/", name, False, encode_table({}))),
        Put(binding),
        Drop(StoredBinding, binding.identity),
        Drop(StoredQueue, (1,)),
        Drop(StoredExchange, ("/", name)),
    ]


def test_what_is_transient_at_one_end_leaves_no_record():
    world = World()
    peer = world.peer()
    for durable, queue in ((True, "q"), (False, "p")):
        peer.call(ExchangeDeclare(exchange=queue, durable=durable))
        peer.call(QueueDeclare(queue=queue, durable=durable))
    for source, destination in (("q", "p"), ("p", "q"), ("p", "p")):
        peer.call(QueueBind(queue=destination, exchange=source))
        peer.call(QueueUnbind(queue=destination, exchange=source))
    peer.call(QueueDelete(queue="p"))
    peer.call(ExchangeDelete(exchange="p"))
    assert [type(each.definition).__name__ for each in world.changes if isinstance(each, Put)] == [
        "StoredExchange",
        "StoredQueue",
    ]
    assert len(world.changes) == len(puts(world.changes, StoredExchange)) + 1


def test_every_kind_has_a_table_of_plain_columns():
    for kind in KINDS:
        columns = kind.columns()
        assert set(kind.types().values()) <= {str, int, bool, bytes}, kind
        assert columns[: len(kind.TABLE.key)] == kind.TABLE.key
        assert kind.TITLE
    assert len({kind.TABLE.name for kind in KINDS}) == len(KINDS)


def test_what_others_need_is_restored_first():
    order = list(TopologicalSorter({kind: kind.NEEDS for kind in KINDS}).static_order())
    assert sorted(order, key=repr) == sorted(KINDS, key=repr)
    named = [StoredVhost, StoredPolicy, StoredExchange, StoredQueue, StoredBinding, StoredGroup]
    assert sorted(named, key=order.index) == named
