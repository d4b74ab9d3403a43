"""AMQP's values as JSON, and back."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given as given_by
from tests.amqp import drawn

from leporid.amqp.properties import Properties, decode_properties, encode_properties
from leporid.amqp.tables import ByteArray, Int8, LongString, Timestamp, Value
from leporid.management import amqp_json
from leporid.management.amqp_json import BODY_PIECE_BYTES, VALUES_A_TEXT, Body
from leporid.management.listings import texts_of
from leporid.management.refusals import Refusal


def written(body: Body) -> tuple[str, str]:
    text = "".join(body.texts())
    return json.loads(text), json.loads("".join(body.encoding()))


def refusal(call: Any, *arguments: Any) -> Any:
    with pytest.raises(Refusal) as caught:
        call(*arguments)
    assert (caught.value.status, caught.value.word) == (400, "bad_request")
    return caught.value.reason


def test_values_are_shown():
    value = {
        "text": "ä",
        "octets": ByteArray(b"\xff"),
        "no text": LongString(b"\xe4"),
        "when": Timestamp(5),
        "money": Decimal("1.50"),
        "list": [1, {"a": None}],
    }
    shown = amqp_json.shown(value)  # type: ignore[arg-type]
    assert json.loads(json.dumps(shown)) == {
        "text": "ä",
        "octets": "\ufffd",
        "no text": "\ufffd",
        "when": 5,
        "money": "1.50",
        "list": [1, {"a": None}],
    }


def test_tables():
    assert amqp_json.table_in(None, "arguments") == {}
    assert amqp_json.table_in([], "arguments") == {}
    given = {"a": 1, "b": [True, {"c": 1.5}], "d": "x", "e": None}
    assert amqp_json.table_in(given, "arguments") == given
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"a": deep}
    for wrong in ([1], "x", {"a" * 256: 1}, {"a": 2**64}, {"a": float("nan")}, deep):
        assert "arguments" in refusal(amqp_json.table_in, wrong, "arguments")


def test_properties():
    given = {"delivery_mode": 2, "headers": {"a": [1]}, "message_id": "m", "unknown": 1}
    found = decode_properties(amqp_json.properties_in(given))
    assert found == Properties(delivery_mode=2, headers={"a": [1]}, message_id="m")
    assert read(amqp_json.shown_properties(encode_properties(found))) == {
        "headers": {"a": [1]},
        "delivery_mode": 2,
        "message_id": "m",
    }
    assert decode_properties(amqp_json.properties_in([])) == Properties()
    for wrong, reason in (
        ({"delivery_mode": "2"}, ["not_int", "delivery_mode"]),
        ({"priority": True}, ["not_int", "priority"]),
        ({"message_id": 7}, ["not_string", "message_id"]),
        ({"priority": 256}, "properties: priority is a number from 0 to 255"),
        ("x", "properties is not a JSON object"),
    ):
        assert refusal(amqp_json.properties_in, wrong) == reason
    assert "255" in refusal(amqp_json.properties_in, {"message_id": "m" * 256})


def test_bodies_that_come():
    assert amqp_json.body_in("ä", "string") == b"\xc3\xa4"
    assert amqp_json.body_in("/+8=", "base64") == b"\xff\xef"
    assert refusal(amqp_json.body_in, "***", "base64") == ["not_base64", "***"]
    assert refusal(amqp_json.body_in, 5, "string") == "payload_not_string"
    assert refusal(amqp_json.body_in, "x", "foo") == ["unsupported_encoding", "foo"]
    assert "payload" in refusal(amqp_json.body_in, "\ud800", "string")


@pytest.mark.parametrize("size", [0, 1, BODY_PIECE_BYTES, 2 * BODY_PIECE_BYTES + 5])
def test_bodies_that_are_shown(size: int):
    assert written(Body(b"x" * size)) == ("x" * size, "utf-8")
    # A character that is cut by the end of a piece.
    text = "x" * (size - 1) + "ä" if size else "ä"
    assert written(Body(text.encode(), "string")) == (text, "string")
    octets = b"\xff" * size
    expected = ("", "utf-8") if not size else (_base64(octets), "base64")
    assert written(Body(octets)) == expected
    assert written(Body(b"y" * size, as_text=False)) == (_base64(b"y" * size), "base64")


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


def read(value: Any) -> Any:
    return json.loads("".join(texts_of(value)))


@given_by(drawn.tables)
def test_headers_are_written_as_they_are_shown_when_they_are_decoded(headers: dict[str, Value]):
    raw = encode_properties(Properties(headers=headers))
    written = read(amqp_json.shown_properties(raw))
    assert written == json.loads(json.dumps({"headers": amqp_json.shown(headers)}))


def test_of_two_headers_of_one_name_the_first_is_shown():
    fields = b"\1aS\0\0\0\1x\1aV\1bV"
    raw = b"\x20\0" + len(fields).to_bytes(4, "big") + fields
    assert read(amqp_json.shown_properties(raw)) == {"headers": {"a": "x", "b": None}}


@pytest.mark.parametrize(
    "headers",
    [
        {f"{number:x}": None for number in range(20_000)},
        {"a": [Int8(1)] * 60_000},
        {"a": [[]] * 20_000},
        {"a": {"b": [{"c": [1.5] * 10_000}]}},
    ],
    ids=["headers", "array", "arrays", "nested"],
)
def test_very_many_headers_are_written_in_steps(headers: dict[str, Value]):
    raw = encode_properties(Properties(headers=headers))
    texts = list(texts_of(amqp_json.shown_properties(raw)))
    assert json.loads("".join(texts))["headers"] == amqp_json.shown(headers)
    assert max(map(len, texts)) <= 16 * VALUES_A_TEXT
