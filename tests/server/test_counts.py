"""The counts that /metrics shows, of a broker at work."""

import re
from dataclasses import asdict, fields

from tests.server.client import published
from tests.server.stack import Clock, Stack

from leporid.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from leporid.amqp.tables import Value
from leporid.broker.exchange.delays import DelayStatistics
from leporid.broker.statistics import Churn
from leporid.server.counts import MODULES, Count, Counts, Delivered, FilterCount, Received

NO_DELIVERIES: dict[str, int] = dict.fromkeys((each.name for each in fields(Delivered)), 0)
NO_CHURN = dict.fromkeys((each.name for each in fields(Churn)), 0)
RECEIVED = {each.name: 0 for each in fields(Received)} | {"sizes": (0,) * 9}
DELIVERED = dict.fromkeys(MODULES.values(), NO_DELIVERIES)
NOTHING: dict[str, object] = dict.fromkeys((each.name for each in fields(Count)), 0) | {
    "churn": NO_CHURN,
    "received": RECEIVED,
    "delivered": DELIVERED,
    "dead_lettered_total": {},
    "dead_letters_dropped_total": {},
    "delays": {"/": DelayStatistics(0, 0, 0, 0)},
    "backlog": {"/": 0},
    "given_up": {},
    "remembered": {"/": 0},
    "retrying": {"/": 0},
    "filter_classes": {},
    "refusals": {},
    "unknown_arguments": {},
    "histograms": {},
    "exchanges": 7,
    "filters": {
        place: {"asked": 0, "evaluated": 0, "matched": 0, "type_errors": 0}
        for place in ("bindings", "queues", "streams")
    },
}
BYTES = re.compile("bytes|log_segments")


def seen(counts: Counts) -> dict[str, object]:
    """All but what takes how many bytes."""
    return {name: what for name, what in asdict(counts.now()).items() if not BYTES.search(name)}


def nothing(stack: Stack) -> dict[str, object]:
    """What is counted at first: each limit shows that it has refused nobody."""
    found = NOTHING | {"refusals": dict.fromkeys(stack.broker.refusals.by_kind, 0)}
    return {name: what for name, what in found.items() if not BYTES.search(name)}


async def test_nothing_yet(stack: Stack):
    assert seen(Counts(stack.broker, stack.engine)) == nothing(stack)


async def test_a_broker_at_work(stack: Stack):
    counts = Counts(stack.broker, stack.engine)
    client, other = await stack.client(), await stack.client()
    await client.call(ChannelOpen(), ChannelOpenOk, channel=2)
    await client.declare("taken", auto_delete=False)
    await client.declare("kept", auto_delete=False)
    churn = NO_CHURN | {
        "connections_opened": 2, "channels_opened": 3, "queues_declared": 2, "queues_created": 2,
    }  # fmt: skip
    known: dict[str, object] = {"connections": 2, "channels": 3, "queues": 2, "bindings": 0}
    assert seen(counts) == nothing(stack) | known | {"churn": churn}

    await client.call(ConfirmSelect(), ConfirmSelectOk)
    for queue in ("taken", "taken", "taken", "kept", "nowhere"):
        await client.publish(queue, b"message")
    await stack.until(lambda: stack.engine.queues.confirmed == 5)
    await other.consume("taken", no_ack=False)
    tags = [(await other.delivered())[0].delivery_tag for _ in range(3)]
    await other.say(BasicAck(tags[0]))
    await stack.until(lambda: stack.engine.queues.acked == 1)
    now = seen(counts)
    delivered = NO_DELIVERIES | {"total": 3, "delivered": 3, "acked": 1}
    assert now == nothing(stack) | known | {
        "churn": churn,
        "publishers": 1,
        "received": {
            "total": 5,
            "confirm": 5,
            "confirmed": 5,
            "routed": 4,
            "dropped": 1,
            "returned": 0,
            "sizes": (5, *(0,) * 8),
            "body_bytes": 5 * len(b"message"),
        },
        "delivered": DELIVERED | {"rabbit_classic_queue": delivered},
        "consumers": 1,
        "messages_ready": 1,
        "messages_unacked": 2,
    }
    assert counts.now().definitions_bytes > 0
    assert counts.now().received_bytes > 0

    other.close()
    await stack.until(lambda: len(stack.turns.links) == 1)
    while (await client.hear(BasicAck)).delivery_tag < 5:
        pass
    await client.call(BasicGet(queue="kept"), BasicGetOk)
    await client.frame()
    await client.frame()
    await client.consume("taken", no_ack=False)
    for _ in range(2):
        assert (await client.delivered())[0].redelivered
    delivered |= {"total": 6, "delivered": 5, "got": 1, "redelivered": 2}
    assert seen(counts) == now | {
        "connections": 1,
        "channels": 2,
        "messages_ready": 0,
        "messages_unacked": 3,
        "churn": churn | {"connections_closed": 1, "channels_closed": 1},
        "delivered": DELIVERED | {"rabbit_classic_queue": delivered},
    }


async def test_what_is_held_and_what_was_too_late(stack: Stack, clock: Clock):
    counts = Counts(stack.broker, stack.engine)
    client = await stack.client()
    arguments: dict[str, Value] = {
        "x-delayed-retry-type": "all",
        "x-delayed-retry-min": 60_000,
        "x-consumer-timeout": 1,
        "x-consumer-timeout-action": "requeue",
    }
    await client.call(QueueDeclare(queue="slow", arguments=arguments), QueueDeclareOk)
    await client.publish("slow", b"message")
    await client.consume("slow", no_ack=False)
    await client.delivered()
    clock.move(1)
    await stack.until(lambda: stack.engine.queues.timed_out == 1)
    now = counts.now()
    assert (now.messages_ready, now.messages_unacked, now.messages_held) == (0, 0, 1)
    assert now.deliveries_timed_out_total == 1


async def test_dead_letters(stack: Stack):
    counts = Counts(stack.broker, stack.engine)
    client = await stack.client()
    arguments: dict[str, Value] = {"x-max-length": 1, "x-dead-letter-exchange": "not there"}
    await client.call(QueueDeclare(queue="lost", arguments=arguments), QueueDeclareOk)
    for _ in range(3):
        await client.publish("lost", b"message")
    await stack.until(lambda: stack.engine.queues.published == 3)
    now = counts.now()
    assert now.dead_lettered_total == {("maxlen", "rabbit_classic_queue"): 2}
    assert now.dead_letters_dropped_total == {("maxlen", "no_exchange"): 2}
    assert now.messages_ready == 1


async def test_refusals(stack: Stack):
    stack.broker.refusals.count("http_uploads")
    assert Counts(stack.broker, stack.engine).now().refusals["http_uploads"] == 1


async def test_filters_of_bindings(stack: Stack):
    counts = Counts(stack.broker, stack.engine)
    client = await stack.client()
    for queue, text in (("a", "p.priority > 5"), ("b", "routing_key = 'other'")):
        await client.call(QueueDeclare(queue=queue), QueueDeclareOk)
        bind = QueueBind(queue=queue, exchange="amq.fanout", arguments={"x-filter-sql": text})
        await client.call(bind, QueueBindOk)
    await client.publish("k", b"message", exchange="amq.fanout")
    await stack.until(lambda: counts.now().received.total == 1)
    assert counts.now().filters["bindings"] == FilterCount(2, 1, 0, 0)


async def test_filters_of_consumers(stack: Stack):
    counts = Counts(stack.broker, stack.engine)
    client = await stack.client()
    await client.call(QueueDeclare(queue="q"), QueueDeclareOk)
    for text in ("p.priority > 5", "routing_key = 'other'", "NOT (routing_key = 'other')"):
        arguments: dict[str, Value] = {"x-filter-sql": text}
        await client.call(BasicConsume(queue="q", arguments=arguments), BasicConsumeOk)
    await client.publish("q", b"message")
    await stack.until(lambda: counts.now().delivered["rabbit_classic_queue"].total == 1)
    assert counts.now().filters["queues"] == FilterCount(3, 2, 1, 0)


async def test_unroutable_messages_are_dropped_or_returned(stack: Stack):
    counts = Counts(stack.broker, stack.engine)
    client = await stack.client()
    await client.publish("nowhere", b"1")
    for _ in range(2):
        await client.write(published("nowhere", b"1", mandatory=True))
    await stack.until(lambda: counts.now().received.total == 3)
    received = counts.now().received
    assert (received.dropped, received.returned, received.routed) == (1, 2, 0)
