from tests.broker.exchange.test_delays import Here
from tests.broker.peer import World
from tests.engine.frames import longstr, properties, table

from leporid.amqp.methods import ExchangeDeclare, QueueBind, QueueDeclare
from leporid.broker.statistics import VirtualHostStatistics


def test_a_virtual_host_fills_them_in():
    world = World()
    peer = world.peer()
    peer.call(ExchangeDeclare(exchange="x", type="topic"))
    peer.call(QueueDeclare(queue="q"))
    peer.call(QueueBind(queue="q", exchange="x", routing_key="#"))
    found = world.broker.vhosts["/"].statistics()
    assert isinstance(found, VirtualHostStatistics)
    assert (found.name, found.exchange_count, found.binding_count) == ("/", 7, 1)
    assert (found.queue_count, found.consumer_count) == (1, 0)
    assert found.delays == (0, 0, 0, 0)
    assert found.remembered == 0


def test_what_exchanges_remember_is_counted():
    here = Here()
    here.exchange("once", "x-message-deduplication", x_cache_size=5)
    here.queue("q")
    here.bind("once", "q")
    for value in ("a", "b", "a"):
        headers = table(**{"x-deduplication-header": longstr(value)})
        here.send("once", value, properties(headers=headers))
    assert here.vhost.statistics().remembered == 2
