"""Metrics of single objects: names, labels and values, of a broker at work."""

from __future__ import annotations

import re
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families
from tests.broker.at_once import declare_partitioned_stream
from tests.server.stack import Stack

from leporid.amqp.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
    TxSelect,
    TxSelectOk,
)
from leporid.server.object_metrics import FAMILIES, PER_OBJECT, chosen, names_of, page

Samples = dict[str, dict[tuple[str, ...], float]]


def read(texts: Iterator[str]) -> Samples:
    """Every sample, by name and by the values of its labels."""
    found: Samples = {}
    for family in text_string_to_metric_families("".join(texts)):
        for sample in family.samples:
            values = found.setdefault(sample.name, {})
            labels = tuple(sample.labels.values())
            assert labels not in values, "a sample stands there twice"
            values[labels] = sample.value
    return found


def of(stack: Stack, *families: str, vhosts: tuple[str, ...] = ()) -> Samples:
    assert set(families) <= set(FAMILIES)
    return read(page(stack.broker, families, prefix="p", vhosts=vhosts))


async def test_queues(stack: Stack):
    client, other = await stack.client(), await stack.client()
    await client.declare("q", auto_delete=False)
    await client.declare("other", auto_delete=False)
    for _ in range(5):
        await client.publish("q", b"12345")
    await stack.until(lambda: stack.engine.queues.published == 5)
    await client.call(BasicGet(queue="q", no_ack=True), BasicGetOk)
    await client.frame()
    await client.frame()
    await client.call(BasicGet(queue="other"), BasicGetEmpty)
    await other.consume("q", no_ack=False)
    tags = [(await other.delivered())[0].delivery_tag for _ in range(4)]
    await other.say(BasicAck(tags[0]))
    await stack.until(lambda: stack.engine.queues.acked == 1)
    q, nothing = ("/", "q"), ("/", "other")

    assert of(stack, "queue_coarse_metrics") == {
        "p_queue_messages_ready": {q: 0, nothing: 0},
        "p_queue_messages_unacked": {q: 3, nothing: 0},
        "p_queue_messages": {q: 3, nothing: 0},
    }
    assert of(stack, "queue_consumer_count") == {"p_queue_consumers": {q: 1, nothing: 0}}
    assert of(stack, "queue_delivery_metrics") == {
        "p_queue_get_ack_total": {q: 0, nothing: 0},
        "p_queue_get_total": {q: 1, nothing: 0},
        "p_queue_messages_delivered_ack_total": {q: 4, nothing: 0},
        "p_queue_messages_delivered_total": {q: 0, nothing: 0},
        "p_queue_messages_redelivered_total": {q: 0, nothing: 0},
        "p_queue_messages_acked_total": {q: 1, nothing: 0},
        "p_queue_get_empty_total": {q: 0, nothing: 1},
        "leporid_queue_messages_appended_total": {q: 5, nothing: 0},
    }
    other.close()
    await stack.until(lambda: len(stack.turns.links) == 1)
    found = of(stack, "queue_metrics")
    assert found["p_queue_messages_ready_bytes"] == {q: 15, nothing: 0}
    assert found["p_queue_consumers"][q] == 0
    assert of(stack, "queue_metrics", vhosts=("none",)) == {}
    assert of(stack, "queue_metrics", vhosts=("none", "/")) == found


async def test_channels_and_connections(stack: Stack):
    client, other = await stack.client(), await stack.client()
    await stack.connect()  # whose handshake is not over
    await client.declare("q", auto_delete=False)
    await client.call(ConfirmSelect(), ConfirmSelectOk)
    await client.call(BasicQos(prefetch_count=7), BasicQosOk)
    for _ in range(3):
        await client.publish("q", b"12345")
    await stack.until(lambda: stack.engine.queues.confirmed == 3)
    await other.call(TxSelect(), TxSelectOk)
    await other.publish("q", b"12345")
    await other.consume("q", no_ack=False)
    tags = [(await other.delivered())[0].delivery_tag for _ in range(3)]
    await other.say(BasicAck(tags[0]))
    sessions = [each for each in stack.broker.sessions if each.opened]
    mine, others = ((f"{each.name} (1)",) for each in sessions)
    channel = sessions[1].channels[1].engine
    await stack.until(lambda: channel.uncommitted == (1, 1))
    assert of(stack, "channel_metrics") == {
        "p_channel_consumers": {mine: 0, others: 1},
        "p_channel_messages_unacked": {mine: 0, others: 3},
        "p_channel_messages_unconfirmed": {mine: 0, others: 0},
        "p_channel_messages_uncommitted": {mine: 0, others: 1},
        "p_channel_acks_uncommitted": {mine: 0, others: 1},
        "p_consumer_prefetch": {mine: 7, others: 0},
        "p_channel_prefetch": {mine: 0, others: 0},
        "leporid_channel_published_total": {mine: 3, others: 0},
        "leporid_channel_delivered_total": {mine: 0, others: 3},
        "leporid_channel_acked_total": {mine: 0, others: 0},
    }
    names = [(each.name,) for each in sessions]
    found = of(stack, "connection_coarse_metrics", "connection_metrics")
    assert found["p_connection_channels"] == dict.fromkeys(names, 1)
    for name in ("incoming", "outgoing"):
        values = found[f"p_connection_{name}_bytes_total"]
        assert list(values) == names
        assert all(value > 100 for value in values.values())
    assert set(found["leporid_connection_memory_bytes"]) == set(names)
    memory = of(stack, "leporid_memory_metrics")
    assert memory["leporid_user_memory_bytes"]["guest",] > 0
    assert memory["leporid_user_definitions_bytes"]["guest",] > 0


async def test_exchanges_churn_and_readers(stack: Stack):
    client = await stack.client()
    await client.call(ExchangeDeclare(exchange='say "x"\\', type="fanout"), ExchangeDeclareOk)
    await client.declare("q", auto_delete=False)
    await client.publish("q", b"1")
    await client.publish("none", b"1")
    await stack.until(lambda: stack.engine.publishing.received == 2)
    found = of(stack, "exchange_metrics")
    assert found["p_exchange_messages_published_total"]["/", ""] == 2
    assert found["leporid_exchange_messages_routed_total"]["/", ""] == 1
    assert ("/", 'say "x"\\') in found["p_exchange_messages_published_total"]
    churn = of(stack, "connection_churn_metrics")
    assert churn["p_connections_opened_total"] == {(): 1}
    assert churn["p_queues_created_total"] == {(): 1}
    vhost = stack.broker.vhosts["/"]
    arguments = {"x-queue-type": "stream"}
    vhost.create_queue("s", durable=True, auto_delete=False, arguments=arguments, owner=None)
    stream = vhost.queue("s").engine
    stack.engine.publish([stream], "", "s", b"\0\0", b"body")
    stack.engine.publish([stream], "", "s", b"\0\0", b"body")
    vhost.set_reader_offset("s", "reader", 0)
    await stack.until(
        lambda: of(stack, "leporid_stream_metrics")["leporid_stream_messages"]["/", "s"] == 2
    )
    assert list(of(stack, "leporid_stream_metrics")["leporid_stream_log_bytes"]) == [("/", "s")]
    stack.engine.clock.wall_ms += 3_600_000
    readers = of(stack, "leporid_reader_metrics")
    assert readers["leporid_reader_lag_messages"] == {("/", "s", "0", "reader"): 1}
    # Since the first message that it has not read came.
    assert 3600 <= readers["leporid_reader_lag_seconds"]["/", "s", "0", "reader"] < 3660


async def test_what_rabbitmq_has_once_for_a_cluster(stack: Stack):
    """Names, labels and values as on RabbitMQ 3.10.8, which leaves the default exchange out."""
    client = await stack.client()
    await client.call(ExchangeDeclare(exchange="x", type="topic"), ExchangeDeclareOk)
    await client.declare("q", auto_delete=False)
    for key in ("a", "b"):
        await client.call(QueueBind(queue="q", exchange="x", routing_key=key), QueueBindOk)
    stack.broker.add_vhost("other")
    hosts = of(stack, "vhost_status")
    assert hosts == {"rabbitmq_cluster_vhost_status": {("/",): 1, ("other",): 1}}
    found = of(stack, "exchange_names", "exchange_bindings", vhosts=("/",))
    named = found["rabbitmq_cluster_exchange_name"]
    bound = found["rabbitmq_cluster_exchange_bindings"]
    assert set(named.values()) == {1}
    assert named.keys() == bound.keys()
    assert {labels[1] for labels in named} >= {"x", "amq.direct", "amq.match"}
    assert "" not in {labels[1] for labels in named}
    assert bound["/", "x", "topic"] == 2
    assert bound["/", "amq.fanout", "fanout"] == 0
    (labels,) = re.findall(
        r"exchange_bindings({.*\"x\".*})",
        "".join(page(stack.broker, ["exchange_bindings"], prefix="p")),
    )
    assert labels == '{vhost="/",exchange="x",type="topic"}'


async def test_a_reader_of_a_partitioned_stream_is_one_of_each_partition(stack: Stack):
    vhost = stack.broker.vhosts["/"]
    declare_partitioned_stream(vhost, "many", 2)
    for number in range(2):
        vhost.set_reader_offset(f"many-{number}", "r", -1)
    readers = of(stack, "leporid_reader_metrics")
    both = {("/", "many", "0", "r"): 0, ("/", "many", "1", "r"): 0}
    assert readers == {"leporid_reader_lag_messages": both, "leporid_reader_lag_seconds": both}


async def test_what_goes_while_a_page_is_made_is_left_out(stack: Stack):
    client = await stack.client()
    for name in ("first", "second", "third"):
        await client.declare(name, auto_delete=False)
    texts = page(stack.broker, ["queue_consumer_count"], prefix="p")
    next(texts)
    assert "first" in next(texts)
    await client.call(QueueDelete(queue="second"), QueueDeleteOk)
    await client.declare("late", auto_delete=False)
    assert [text for text in texts if text] == ['p_queue_consumers{vhost="/",queue="third"} 0\n']


def test_families_are_chosen_by_name_and_none_twice():
    assert chosen(["queue_metrics", "nonsense", "queue_metrics"]) == ["queue_metrics"]
    assert chosen(["queue_consumer_count"]) == ["queue_consumer_count"]
    assert chosen(["queue_consumer_count", "queue_metrics"]) == ["queue_metrics"]
    assert chosen([]) == []


def test_no_two_families_of_a_page_have_a_metric_of_one_name():
    names = [names_of([family], "p") for family in PER_OBJECT]
    assert sum(map(len, names)) == len(set().union(*names))
