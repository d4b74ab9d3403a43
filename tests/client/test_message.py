"""Messages, and what properties mean in Python."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from leporid.amqp.properties import Properties, decode_properties
from leporid.amqp.tables import Timestamp
from leporid.client import message as module
from leporid.client.errors import LocalProtocolError
from leporid.client.message import Message, decoded_message

MOMENT = datetime(2026, 5, 1, tzinfo=UTC)


def test_a_message_is_encoded_and_decoded():
    message = Message(
        b"body",
        key="k",
        headers={"a": 1},
        priority=2,
        content_type="t",
        content_encoding="e",
        correlation_id="c",
        reply_to="r",
        expires=1.5,
        message_id="m",
        timestamp=MOMENT,
        type="y",
        user_id="u",
        app_id="p",
        tag="late",
        deliver_at=MOMENT,
    )
    milliseconds = int(MOMENT.timestamp()) * 1000
    raw = message.encoded().raw()
    assert decode_properties(raw) == Properties(
        content_type="t",
        content_encoding="e",
        headers={"a": 1, "x-tag": "late", "x-deliver-at": milliseconds},
        delivery_mode=2,
        priority=2,
        correlation_id="c",
        reply_to="r",
        expiration="1500",
        message_id="m",
        timestamp=milliseconds // 1000,
        type="y",
        user_id="u",
        app_id="p",
    )
    again = decoded_message(b"body", "k", raw)
    assert again.expires == timedelta(seconds=1.5)
    assert (again.body, again.key, again.tag, again.persistent) == (b"body", "k", "late", True)


def test_a_body_that_could_change_is_copied():
    body = bytearray(b"before")
    message = Message(body)
    body[:] = b"after!"
    assert message.body == b"before"
    with pytest.raises(LocalProtocolError, match=r"text\.encode\(\)"):
        Message("text")  # type: ignore[arg-type]


def test_tables_from_what_python_has():
    assert module.table_of(
        {
            "moment": MOMENT,
            "deep": {"list": (1, [None, 2.5], Decimal("1.5"))},
            "octets": b"x",
        }
    ) == {
        "moment": Timestamp(MOMENT.timestamp()),
        "deep": {"list": [1, [None, 2.5], Decimal("1.5")]},
        "octets": b"x",
    }


def test_what_messages_tell_of_themselves():
    assert module.tag_of({"x-stream-filter-value": "b"}) == "b"
    assert module.tag_of({"x-tag": 5}) is None
    assert module.deaths_of({"x-death": [{"queue": "q"}, 5]}) == [{"queue": "q"}]
    assert module.deaths_of({"x-death": "no list"}) == []
    assert module.moment_of(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert module.moment_of(1 << 60) is None
    assert module.moment_of(None) is None


def test_durations():
    assert module.duration_ms(timedelta(minutes=1), "x") == 60_000
    assert module.duration_ms(0.25, "x") == 250
    assert module.expiration_of(0) == "0"
    for wrong in (-0.5, timedelta(-1), float("nan"), float("inf"), 1e300, "1", True, None):
        with pytest.raises(LocalProtocolError, match="x"):
            module.duration_ms(wrong, "x")  # type: ignore[arg-type]
