"""The classes connection and channel, against octets that RabbitMQ's own encoder wrote."""

import pytest

from leporid.amqp import methods
from leporid.amqp.methods import connection as declared
from leporid.amqp.tables import Int32

WRITTEN_BY_RABBITMQ: list[tuple[methods.Method, str]] = [
    (
        methods.ConnectionStart(
            version_major=1,
            version_minor=2,
            server_properties={"k": "v", "n": Int32(3)},
            mechanisms=b"mechanisms\xff",
            locales=b"locales\xff",
        ),
        (
            "000a000a01020000000f016b530000000176016e49000000030000000b6d656368616e69736d73ff0000"
            "00086c6f63616c6573ff"
        ),
    ),
    (
        methods.ConnectionStartOk(
            client_properties={"k": "v", "n": Int32(6)},
            mechanism="mechanismé",
            response=b"response\xff",
            locale="localeé",
        ),
        (
            "000a000b0000000f016b530000000176016e49000000060b6d656368616e69736dc3a900000009726573"
            "706f6e7365ff086c6f63616c65c3a9"
        ),
    ),
    (
        methods.ConnectionSecure(challenge=b"challenge\xff"),
        "000a00140000000a6368616c6c656e6765ff",
    ),
    (
        methods.ConnectionSecureOk(response=b"response\xff"),
        "000a001500000009726573706f6e7365ff",
    ),
    (
        methods.ConnectionTune(channel_max=268, frame_max=70013, heartbeat=270),
        "000a001e010c0001117d010e",
    ),
    (
        methods.ConnectionTuneOk(channel_max=271, frame_max=70016, heartbeat=273),
        "000a001f010f000111800111",
    ),
    (
        methods.ConnectionOpen(virtual_host="virtual-hosté"),
        "000a00280e7669727475616c2d686f7374c3a90000",
    ),
    (
        methods.ConnectionOpenOk(),
        "000a002900",
    ),
    (
        methods.ConnectionClose(
            reply_code=275, reply_text="reply-texté", class_id=277, method_id=278
        ),
        "000a003201130c7265706c792d74657874c3a901150116",
    ),
    (
        methods.ConnectionCloseOk(),
        "000a0033",
    ),
    (
        methods.ConnectionBlocked(reason="reasoné"),
        "000a003c08726561736f6ec3a9",
    ),
    (
        methods.ConnectionUnblocked(),
        "000a003d",
    ),
    (
        methods.ConnectionUpdateSecret(new_secret=b"new_secret\xff", reason="reasoné"),
        "000a00460000000b6e65775f736563726574ff08726561736f6ec3a9",
    ),
    (
        methods.ConnectionUpdateSecretOk(),
        "000a0047",
    ),
    (
        methods.ChannelOpen(),
        "0014000a00",
    ),
    (
        methods.ChannelOpenOk(),
        "0014000b00000000",
    ),
    (
        methods.ChannelFlow(active=True),
        "0014001401",
    ),
    (
        methods.ChannelFlowOk(active=False),
        "0014001500",
    ),
    (
        methods.ChannelClose(reply_code=284, reply_text="reply-texté", class_id=286, method_id=287),
        "00140028011c0c7265706c792d74657874c3a9011e011f",
    ),
    (
        methods.ChannelCloseOk(),
        "00140029",
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
