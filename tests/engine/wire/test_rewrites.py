"""Rewrites of properties: what is not named keeps its bytes."""

import pytest
from tests.engine.frames import array, longstr, properties, table

from leporid.amqp.errors import PreconditionFailed
from leporid.engine.wire.headers import with_reply_to
from leporid.engine.wire.rewrites import copies_of, invalid_expiration

ODD = table(
    i=b"I\xff\xff\xff\xff",
    b=b"b\xff",
    s=b"s\x80\x00",
    x=b"x\x00\x00\x00\x02\xff\xfe",
    S=longstr(b"\xff"),
    d=b"d\x7f\xef\xff\xff\xff\xff\xff\xff",
    f=b"f\x40\x49\x0f\xdb",
    D=b"D\x02\x00\x00\x00\x07",
    T=b"T\x00\x00\x00\x00\x00\x00\x00\x01",
    l=b"l\x80\x00\x00\x00\x00\x00\x00\x00",
    u=b"u\xff\xff",
    B=b"B\xff",
    t=b"t\x01",
    V=b"V",
    A=array(b"V", array()),
    F=b"F" + table(a=b"I\x00\x00\x00\x01"),
)


def test_keys_of_both_headers_in_order():
    raw = properties(
        headers=table(BCC=array(longstr("c")), CC=array(longstr("a"), longstr("b"))), priority=3
    )
    changed, keys = copies_of(raw)
    assert keys == ["a", "b", "c"]
    assert changed == properties(headers=table(CC=array(longstr("a"), longstr("b"))), priority=3)


def test_cc_alone_changes_no_byte():
    raw = properties(headers=table(CC=array(longstr("a"))))
    assert copies_of(raw) == (raw, ["a"])


def test_elements_that_are_no_strings_count_for_nothing():
    headers = table(CC=array(b"V", longstr("a"), b"I\x00\x00\x00\x01", array(longstr("b"))))
    assert copies_of(properties(headers=headers))[1] == ["a"]


@pytest.mark.parametrize(
    ("value", "kind"), [(longstr("a"), "longstr"), (b"V", "void"), (b"F" + table(), "table")]
)
def test_what_is_no_array_is_refused(value, kind):
    for name in ("CC", "BCC"):
        with pytest.raises(PreconditionFailed) as caught:
            copies_of(properties(headers=table(**{name: value})))
        assert f'"{name}",{kind}}}' in caught.value.text


def test_other_headers_keep_their_bytes():
    raw = properties(headers=ODD, delivery_mode=2, timestamp=5, reply_to="r", expiration="60")
    assert with_reply_to(raw, "there") == raw.replace(b"\x01r", b"\x05there")
    with_copies = table(BCC=array(longstr("q")))[4:] + ODD[4:]
    headers = len(with_copies).to_bytes(4, "big") + with_copies
    changed, keys = copies_of(properties(headers=headers, message_id="m"))
    assert keys == ["q"]
    assert changed == properties(headers=ODD, message_id="m")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no_integer"),
        ("abc", "no_integer"),
        ("-", "no_integer"),
        (" 5", "no_integer"),
        ("5x", '{leftover_string,"x"}'),
        ("5 ", '{leftover_string," "}'),
        ("1.5", '{leftover_string,".5"}'),
        ("-1", "{value_negative,-1}"),
        ("315360000001", "{value_too_large,315360000001}"),
        ("9" * 30, f"{{value_too_large,{'9' * 30}}}"),
    ],
)
def test_the_fault_of_an_expiration_in_rabbitmqs_words(text, reason):
    fault = invalid_expiration(text.encode())
    assert fault.text == f"PRECONDITION_FAILED - invalid expiration '{text}': {reason}"


def test_an_expiration_that_is_not_even_text():
    assert "no_integer" in invalid_expiration(b"\xff\xfe").text
