"""The counts that /metrics shows, of a broker at work."""

from dataclasses import asdict, fields

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
from leporid.server.counts import Count, Counts, FilterCount

NOTHING: dict[str, object] = dict.fromkeys((each.name for each in fields(Count)), 0) | {
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
    "filters": {
        place: {"asked": 0, "evaluated": 0, "matched": 0, "type_errors": 0}
        for place in ("bindings", "queues", "streams")
    },
}


def nothing(stack: Stack) -> dict[str, object]:
    """What is counted at first: each limit shows that it has refused nobody."""
    return NOTHING | {"refusals": dict.fromkeys(stack.broker.refusals.by_kind, 0)}


async def test_nothing_yet(stack: Stack):
    assert asdict(Counts(stack.broker, stack.engine, ()).now()) == nothing(stack)


async def test_a_broker_at_work(stack: Stack):
    counts = Counts(stack.broker, stack.engine, ())
    client, other = await stack.client(), await stack.client()
    await client.call(ChannelOpen(), ChannelOpenOk, channel=2)
    await client.declare("taken", auto_delete=False)
    await client.declare("kept", auto_delete=False)
    assert asdict(counts.now()) == nothing(stack) | {"connections": 2, "channels": 3, "queues": 2}

    await client.call(ConfirmSelect(), ConfirmSelectOk)
    for queue in ("taken", "taken", "taken", "kept", "nowhere"):
        await client.publish(queue, b"message")
    await stack.until(lambda: stack.engine.queues.confirmed == 5)
    await other.consume("taken", no_ack=False)
    tags = [(await other.delivered())[0].delivery_tag for _ in range(3)]
    await other.say(BasicAck(tags[0]))
    await stack.until(lambda: stack.engine.queues.acked == 1)
    now = asdict(counts.now())
    assert now == {
        "connections": 2,
        "channels": 3,
        "queues": 2,
        "consumers": 1,
        "messages_ready": 1,
        "messages_unacked": 2,
        "messages_held": 0,
        "messages_received_total": 5,
        "messages_confirmed_total": 5,
        "messages_delivered_total": 3,
        "messages_redelivered_total": 0,
        "messages_acknowledged_total": 1,
        "deliveries_timed_out_total": 0,
        "dead_lettered_total": {},
        "dead_letters_dropped_total": {},
        "delays": NOTHING["delays"],
        "backlog": {"/": 0},
        "given_up": {},
        "remembered": {"/": 0},
        "retrying": {"/": 0},
        "leases": 0,
        "messages_leased": 0,
        "filter_classes": {},
        "unknown_arguments": {},
        "filters": NOTHING["filters"],
        "stream_batches_skipped": 0,
        "stream_messages_skipped": 0,
        "refusals": nothing(stack)["refusals"],
    }

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
    assert asdict(counts.now()) == now | {
        "connections": 1,
        "channels": 2,
        "messages_ready": 0,
        "messages_unacked": 3,
        "messages_delivered_total": 6,
        "messages_redelivered_total": 2,
    }


async def test_what_is_held_and_what_was_too_late(stack: Stack, clock: Clock):
    counts = Counts(stack.broker, stack.engine, ())
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
    counts = Counts(stack.broker, stack.engine, ())
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
    assert Counts(stack.broker, stack.engine, ()).now().refusals["http_uploads"] == 1


async def test_filters_of_bindings(stack: Stack):
    counts = Counts(stack.broker, stack.engine, ())
    client = await stack.client()
    for queue, text in (("a", "p.priority > 5"), ("b", "routing_key = 'other'")):
        await client.call(QueueDeclare(queue=queue), QueueDeclareOk)
        bind = QueueBind(queue=queue, exchange="amq.fanout", arguments={"x-filter-sql": text})
        await client.call(bind, QueueBindOk)
    await client.publish("k", b"message", exchange="amq.fanout")
    await stack.until(lambda: counts.now().messages_received_total == 1)
    assert counts.now().filters["bindings"] == FilterCount(2, 1, 0, 0)


async def test_filters_of_consumers(stack: Stack):
    counts = Counts(stack.broker, stack.engine, ())
    client = await stack.client()
    await client.call(QueueDeclare(queue="q"), QueueDeclareOk)
    for text in ("p.priority > 5", "routing_key = 'other'", "NOT (routing_key = 'other')"):
        arguments: dict[str, Value] = {"x-filter-sql": text}
        await client.call(BasicConsume(queue="q", arguments=arguments), BasicConsumeOk)
    await client.publish("q", b"message")
    await stack.until(lambda: counts.now().messages_delivered_total == 1)
    assert counts.now().filters["queues"] == FilterCount(3, 2, 1, 0)
