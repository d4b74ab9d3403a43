"""What was declared, in the order in which it is declared again."""

from leporid.amqp.methods import ExchangeBind, ExchangeDeclare, QueueBind, QueueDeclare
from leporid.client.recorded_topology import RecordedTopology


def bound(topology, queue, source, key="k", **arguments):
    binding = topology.binding(queue, source, key, arguments, to_exchange=False)
    topology.bind(binding)
    return binding


def test_declarations_are_kept_in_their_order_and_once():
    topology = RecordedTopology()
    for name in ("b", "a", "b"):
        topology.add_exchange(ExchangeDeclare(name))
        topology.add_queue(QueueDeclare(name), name)
    assert [each.exchange for each in topology.exchanges()] == ["b", "a"]
    assert [each.name for each in topology.queues()] == ["b", "a"]
    assert repr(topology) == "<RecordedTopology of 2 exchanges, 2 queues, 0 bindings>"


def test_bindings_follow_a_queue_whose_name_the_broker_made():
    topology = RecordedTopology()
    record = topology.add_queue(QueueDeclare(""), "amq.gen-1")
    bound(topology, "amq.gen-1", "x")
    topology.rename(record, "amq.gen-2")
    (binding,) = topology.bindings()
    assert binding.method() == QueueBind("amq.gen-2", "x", "k")
    assert topology.queue("amq.gen-1") is None
    assert topology.queue("amq.gen-2") is record
    assert record.declare.queue == ""


def test_bindings_are_told_apart_by_all_they_say():
    topology = RecordedTopology()
    topology.add_queue(QueueDeclare("q"), "q")
    bound(topology, "q", "x", a=1, b=2)
    bound(topology, "q", "x", b=2, a=1)
    bound(topology, "q", "x", a=True, b=2)
    bound(topology, "q", "x", "other", a=1, b=2)
    assert len(list(topology.bindings())) == 3
    topology.unbind(topology.binding("q", "x", "k", {"a": 1, "b": 2}, to_exchange=False))
    assert len(list(topology.bindings())) == 2


def test_what_is_deleted_takes_its_bindings_with_it():
    topology = RecordedTopology()
    for name in ("x", "y"):
        topology.add_exchange(ExchangeDeclare(name))
        topology.add_queue(QueueDeclare(name), name)
        bound(topology, name, "x")
        bound(topology, name, "y")
        bound(topology, "unknown", name)
    between = topology.binding("y", "x", "", {}, to_exchange=True)
    topology.bind(between)
    assert between.method() == ExchangeBind("y", "x")
    topology.forget_queue("x")
    assert [each.source for each in topology.bindings()] == ["x", "x", "y", "y", "x"]
    topology.forget_exchange("y")
    assert [each.method() for each in topology.bindings()] == [
        QueueBind("unknown", "x", "k"),
        QueueBind("y", "x", "k"),
    ]
