"""The classes basic, confirm and tx, against octets that RabbitMQ's own encoder wrote."""

import pytest

from leporid.amqp import methods
from leporid.amqp.methods import basic as declared
from leporid.amqp.tables import Int32

WRITTEN_BY_RABBITMQ: list[tuple[methods.Method, str]] = [
    (
        methods.BasicQos(prefetch_size=70087, prefetch_count=344, global_=False),
        "003c000a000111c7015800",
    ),
    (
        methods.BasicQosOk(),
        "003c000b",
    ),
    (
        methods.BasicConsume(
            queue="queueé",
            consumer_tag="consumer-tagé",
            no_local=True,
            no_ack=False,
            exclusive=True,
            no_wait=False,
            arguments={"k": "v", "n": Int32(96)},
        ),
        (
            "003c00140000077175657565c3a90e636f6e73756d65722d746167c3a9050000000f016b530000000176"
            "016e4900000060"
        ),
    ),
    (
        methods.BasicConsumeOk(consumer_tag="consumer-tagé"),
        "003c00150e636f6e73756d65722d746167c3a9",
    ),
    (
        methods.BasicCancel(consumer_tag="consumer-tagé", no_wait=False),
        "003c001e0e636f6e73756d65722d746167c3a900",
    ),
    (
        methods.BasicCancelOk(consumer_tag="consumer-tagé"),
        "003c001f0e636f6e73756d65722d746167c3a9",
    ),
    (
        methods.BasicPublish(
            exchange="exchangeé", routing_key="routing-keyé", mandatory=False, immediate=True
        ),
        "003c002800000a65786368616e6765c3a90d726f7574696e672d6b6579c3a902",
    ),
    (
        methods.BasicReturn(
            reply_code=361,
            reply_text="reply-texté",
            exchange="exchangeé",
            routing_key="routing-keyé",
        ),
        "003c003201690c7265706c792d74657874c3a90a65786368616e6765c3a90d726f7574696e672d6b6579c3a9",
    ),
    (
        methods.BasicDeliver(
            consumer_tag="consumer-tagé",
            delivery_tag=1099511627886,
            redelivered=False,
            exchange="exchangeé",
            routing_key="routing-keyé",
        ),
        (
            "003c003c0e636f6e73756d65722d746167c3a9000001000000006e000a65786368616e6765c3a90d726f"
            "7574696e672d6b6579c3a9"
        ),
    ),
    (
        methods.BasicGet(queue="queueé", no_ack=False),
        "003c00460000077175657565c3a900",
    ),
    (
        methods.BasicGetOk(
            delivery_tag=1099511627892,
            redelivered=False,
            exchange="exchangeé",
            routing_key="routing-keyé",
            message_count=70120,
        ),
        "003c00470000010000000074000a65786368616e6765c3a90d726f7574696e672d6b6579c3a9000111e8",
    ),
    (
        methods.BasicGetEmpty(),
        "003c004800",
    ),
    (
        methods.BasicAck(delivery_tag=1099511627897, multiple=True),
        "003c0050000001000000007901",
    ),
    (
        methods.BasicReject(delivery_tag=1099511627899, requeue=True),
        "003c005a000001000000007b01",
    ),
    (
        methods.BasicRecoverAsync(requeue=False),
        "003c006400",
    ),
    (
        methods.BasicRecover(requeue=True),
        "003c006e01",
    ),
    (
        methods.BasicRecoverOk(),
        "003c006f",
    ),
    (
        methods.BasicNack(delivery_tag=1099511627903, multiple=True, requeue=False),
        "003c0078000001000000007f01",
    ),
    (
        methods.ConfirmSelect(no_wait=True),
        "0055000a01",
    ),
    (
        methods.ConfirmSelectOk(),
        "0055000b",
    ),
    (
        methods.TxSelect(),
        "005a000a",
    ),
    (
        methods.TxSelectOk(),
        "005a000b",
    ),
    (
        methods.TxCommit(),
        "005a0014",
    ),
    (
        methods.TxCommitOk(),
        "005a0015",
    ),
    (
        methods.TxRollback(),
        "005a001e",
    ),
    (
        methods.TxRollbackOk(),
        "005a001f",
    ),
]


@pytest.mark.parametrize(("method", "octets"), WRITTEN_BY_RABBITMQ, ids=str)
def test_octets_are_rabbitmqs(method: methods.Method, octets: str):
    assert method.encode().hex() == octets
    assert methods.decode(bytes.fromhex(octets)) == method


def test_every_method_of_the_module_is_here():
    here = {type(method) for method, _ in WRITTEN_BY_RABBITMQ}
    subclasses = {
        each
        for each in vars(declared).values()
        if isinstance(each, type)
        and issubclass(each, methods.Method)
        and each is not methods.Method
    }
    assert here == subclasses
