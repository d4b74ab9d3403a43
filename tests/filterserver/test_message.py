import pytest
from tests.filterserver.asked import batch_frame, message

from leporid.amqp.tables import Value
from leporid.filterserver import frames
from leporid.filterserver.message import Message, messages_of


def shown(*given: tuple[bytes, bytes, bytes]) -> list[Message]:
    return list(messages_of(batch_frame(given)[frames.HEAD.size :]))


def one(headers: dict[str, Value] | None = None, body: bytes = b"", **more: object) -> Message:
    # Something on both sides, so that a place which is off by one shows.
    return shown(message({"a": 1}, b"x"), message(headers, body, **more), message({"b": 2}))[1]


def test_shows_where_it_was_published():
    assert (one().exchange, one().routing_key) == ("orders", "paid")


def test_shows_names_that_are_no_utf8():
    found = shown((b"\1e\2\xff\xfe", b"\0\0", b""))[0]
    assert found.routing_key.encode("utf-8", "surrogateescape") == b"\xff\xfe"


def test_shows_the_body():
    assert one(body=b"thank you").body == b"thank you"


@pytest.mark.parametrize(
    "before",
    [
        {},
        {"content_type": "text/plain"},
        {"content_encoding": "gzip"},
        {"content_type": "text/plain", "content_encoding": "gzip", "app_id": "test"},
    ],
)
def test_shows_headers_wherever_they_stand(before):
    headers: dict[str, Value] = {"n": 7, "colour": "red", "deep": {"list": [1, 2]}}
    assert one(headers, **before).headers == headers


def test_headers_are_empty_without_any():
    assert one().headers == {}
    assert one(message_id="m").headers == {}


def test_headers_are_decoded_once():
    found = one({"n": 7})
    assert found.headers is found.headers


def test_shows_properties():
    found = one({"n": 7}, message_id="m-1", priority=3).properties
    assert (found.message_id, found.priority, found.reply_to) == ("m-1", 3, None)


@pytest.mark.parametrize(
    ("headers", "tag"),
    [
        ({}, None),
        ({"x-tag": "a"}, "a"),
        ({"x-stream-filter-value": "b"}, "b"),
        ({"x-stream-filter-value": "b", "x-tag": "a"}, "a"),
        ({"x-tag": 7}, None),
    ],
)
def test_shows_the_tag(headers, tag):
    assert one(headers).tag == tag


def test_says_what_it_is():
    assert repr(one(body=b"four")) == (
        "<Message exchange='orders' routing_key='paid' body=4 bytes>"
    )
