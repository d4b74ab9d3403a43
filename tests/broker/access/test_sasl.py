"""SASL responses: who claims to be whom, out of bytes that anybody may send."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.amqp.errors import CommandInvalid, SyntaxFault
from leporid.amqp.tables import ByteArray, LongString, encode_table
from leporid.broker.access.sasl import MECHANISMS, Credentials, parse_plain, parse_response


def amqplain(**fields: object) -> bytes:
    """An AMQPLAIN response: a table without its length."""
    return encode_table(fields)[4:]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("response", "username", "password"),
    [
        (b"\0guest\0guest", "guest", b"guest"),
        (b"\0\0", "", b""),
        (b"\0\xc3\xbc\0\xff\xfe", "ü", b"\xff\xfe"),
    ],
)
def test_plain(response: bytes, username: str, password: bytes):
    assert parse_response("PLAIN", response) == Credentials("PLAIN", username, password)


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\0",
        b"guest",
        b"guest\0guest",
        b"\0guest",
        b"admin\0guest\0guest",
        b"\0guest\0guest\0",
    ],
)
def test_plain_of_another_shape_is_a_syntax_error(response: bytes):
    with pytest.raises(SyntaxFault, match="PLAIN response invalid"):
        parse_plain(response)


def test_amqplain():
    response = amqplain(LOGIN="ü", PASSWORD="pässword", extra=1)
    expected = Credentials("AMQPLAIN", "ü", "pässword".encode())
    assert parse_response("AMQPLAIN", response) == expected
    response = amqplain(LOGIN=LongString(b"\xff"), PASSWORD=LongString(b"\xfe"))
    assert parse_response("AMQPLAIN", response).password == b"\xfe"


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (b"", "missing LOGIN or PASSWORD"),
        (amqplain(LOGIN="guest"), "missing LOGIN or PASSWORD"),
        (amqplain(PASSWORD="guest"), "missing LOGIN or PASSWORD"),
        (amqplain(LOGIN=1, PASSWORD="guest"), "unsupported type for LOGIN or PASSWORD"),
        (amqplain(LOGIN="guest", PASSWORD=True), "unsupported type for LOGIN or PASSWORD"),
        (amqplain(LOGIN="guest", PASSWORD=ByteArray(b"x")), "unsupported type for LOGIN"),
        (amqplain(LOGIN="guest", PASSWORD="guest")[:-1], "SYNTAX_ERROR"),
        (b"\0guest\0guest", "SYNTAX_ERROR"),
    ],
)
def test_amqplain_of_another_shape_is_a_syntax_error(response: bytes, why: str):
    with pytest.raises(SyntaxFault, match=why):
        parse_response("AMQPLAIN", response)


def test_amqplain_of_too_much_is_not_decoded():
    fields = dict.fromkeys(map(str, range(14)))
    assert parse_response("AMQPLAIN", amqplain(LOGIN="a", PASSWORD="b", **fields)).username == "a"
    response = amqplain(LOGIN="a", PASSWORD="b", extra=[None] * 4000)
    with pytest.raises(SyntaxFault, match="limit of 16"):
        parse_response("AMQPLAIN", response)


def test_an_unknown_mechanism_is_refused():
    with pytest.raises(CommandInvalid, match="unknown authentication mechanism 'EXTERNAL'"):
        parse_response("EXTERNAL", b"")


def test_a_name_that_is_not_utf8_equals_nobodys():
    credentials = parse_plain(b"\0gue\xffst\0x")
    assert credentials.username != "guest"
    assert ascii(credentials.username) == "'gue\\udcffst'"


def test_the_password_is_not_in_the_repr():
    assert "secret" not in repr(parse_plain(b"\0guest\0secret"))


@given(mechanism=st.sampled_from(MECHANISMS), response=st.binary(max_size=60))
def test_any_garbage_is_read_or_refused(mechanism: str, response: bytes):
    with suppress(CommandInvalid, SyntaxFault):
        assert parse_response(mechanism, response).mechanism == mechanism
