"""The classes access, exchange and queue, against octets that RabbitMQ's own encoder wrote."""

import pytest

from leporid.amqp import methods
from leporid.amqp.methods import topology as declared
from leporid.amqp.tables import Int32

WRITTEN_BY_RABBITMQ: list[tuple[methods.Method, str]] = [
    (
        methods.AccessRequest(
            realm="realmé", exclusive=False, passive=True, active=False, write=True, read=False
        ),
        "001e000a077265616c6dc3a90a",
    ),
    (
        methods.AccessRequestOk(ticket=294),
        "001e000b0126",
    ),
    (
        methods.ExchangeDeclare(
            exchange="exchangeé",
            type="typeé",
            passive=False,
            durable=True,
            auto_delete=False,
            internal=True,
            no_wait=False,
            arguments={"k": "v", "n": Int32(46)},
        ),
        "0028000a00000a65786368616e6765c3a90674797065c3a90a0000000f016b530000000176016e490000002e",
    ),
    (
        methods.ExchangeDeclareOk(),
        "0028000b",
    ),
    (
        methods.ExchangeDelete(exchange="exchangeé", if_unused=True, no_wait=False),
        "0028001400000a65786368616e6765c3a901",
    ),
    (
        methods.ExchangeDeleteOk(),
        "00280015",
    ),
    (
        methods.ExchangeBind(
            destination="destinationé",
            source="sourceé",
            routing_key="routing-keyé",
            no_wait=False,
            arguments={"k": "v", "n": Int32(54)},
        ),
        (
            "0028001e00000d64657374696e6174696f6ec3a908736f75726365c3a90d726f7574696e672d6b6579c3"
            "a9000000000f016b530000000176016e4900000036"
        ),
    ),
    (
        methods.ExchangeBindOk(),
        "0028001f",
    ),
    (
        methods.ExchangeUnbind(
            destination="destinationé",
            source="sourceé",
            routing_key="routing-keyé",
            no_wait=True,
            arguments={"k": "v", "n": Int32(59)},
        ),
        (
            "0028002800000d64657374696e6174696f6ec3a908736f75726365c3a90d726f7574696e672d6b6579c3"
            "a9010000000f016b530000000176016e490000003b"
        ),
    ),
    (
        methods.ExchangeUnbindOk(),
        "00280033",
    ),
    (
        methods.QueueDeclare(
            queue="queueé",
            passive=False,
            durable=True,
            exclusive=False,
            auto_delete=True,
            no_wait=False,
            arguments={"k": "v", "n": Int32(66)},
        ),
        "0032000a0000077175657565c3a90a0000000f016b530000000176016e4900000042",
    ),
    (
        methods.QueueDeclareOk(queue="queueé", message_count=70068, consumer_count=70069),
        "0032000b077175657565c3a9000111b4000111b5",
    ),
    (
        methods.QueueBind(
            queue="queueé",
            exchange="exchangeé",
            routing_key="routing-keyé",
            no_wait=False,
            arguments={"k": "v", "n": Int32(74)},
        ),
        (
            "003200140000077175657565c3a90a65786368616e6765c3a90d726f7574696e672d6b6579c3a9000000"
            "000f016b530000000176016e490000004a"
        ),
    ),
    (
        methods.QueueBindOk(),
        "00320015",
    ),
    (
        methods.QueuePurge(queue="queueé", no_wait=True),
        "0032001e0000077175657565c3a901",
    ),
    (
        methods.QueuePurgeOk(message_count=70077),
        "0032001f000111bd",
    ),
    (
        methods.QueueDelete(queue="queueé", if_unused=False, if_empty=True, no_wait=False),
        "003200280000077175657565c3a902",
    ),
    (
        methods.QueueDeleteOk(message_count=70082),
        "00320029000111c2",
    ),
    (
        methods.QueueUnbind(
            queue="queueé",
            exchange="exchangeé",
            routing_key="routing-keyé",
            arguments={"k": "v", "n": Int32(86)},
        ),
        (
            "003200320000077175657565c3a90a65786368616e6765c3a90d726f7574696e672d6b6579c3a9000000"
            "0f016b530000000176016e4900000056"
        ),
    ),
    (
        methods.QueueUnbindOk(),
        "00320033",
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
