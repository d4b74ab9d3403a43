from tests.broker.exchange.test_delays import Here
from tests.broker.peer import Peer, World
from tests.engine.frames import longstr, properties, table

from leporid.amqp.methods import (
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDelete,
)
from leporid.broker.statistics import Churn, VirtualHostStatistics


def test_a_virtual_host_fills_them_in():
    world = World()
    peer = world.peer()
    peer.call(ExchangeDeclare(exchange="x", type="topic"))
    peer.call(QueueDeclare(queue="q"))
    peer.call(QueueBind(queue="q", exchange="x", routing_key="#"))
    found = world.broker.vhosts["/"].statistics()
    assert isinstance(found, VirtualHostStatistics)
    assert (found.name, found.exchange_count, found.binding_count) == ("/", 8, 1)
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


def test_what_comes_and_goes_is_counted():
    world = World()
    peer, other = world.peer(), world.peer()
    stranger = Peer(world.broker)  # whose handshake is not over
    other.call(ChannelOpen(), channel=2)
    assert world.broker.churn == Churn(connections_opened=2, channels_opened=3)

    peer.call(QueueDeclare(queue="q"))
    peer.call(QueueDeclare(queue="q"))
    peer.call(QueueDeclare(queue="q", passive=True))
    other.call(QueueDeclare(queue="own", exclusive=True))
    peer.call(QueueDelete(queue="q"))
    peer.call(QueueDelete(queue="q"))
    churn = world.broker.statistics().churn
    assert (churn.queues_declared, churn.queues_created, churn.queues_deleted) == (3, 2, 1)

    peer.call(ChannelClose())
    other.refused(QueueDeclare(queue="none", passive=True), channel=2)
    assert world.broker.churn.channels_closed == 2
    other.call(ConnectionClose(), channel=0)
    stranger.session.on_lost()
    assert world.broker.churn == Churn(
        connections_opened=2,
        connections_closed=1,
        channels_opened=3,
        channels_closed=3,
        queues_declared=3,
        queues_created=2,
        queues_deleted=2,
    )
    assert churn.connections_closed == 0, "what was counted stays as it was"
