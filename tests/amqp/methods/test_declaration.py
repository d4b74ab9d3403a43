"""The codec that all methods share: round trips, cuts, trailing bytes, reserved fields."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.amqp import drawn

from leporid.amqp import fields, methods
from leporid.amqp.constants import METHOD_IDS
from leporid.amqp.errors import CommandInvalid, Fault, FrameError, SyntaxFault
from leporid.amqp.methods import (
    BasicAck,
    BasicQos,
    ExchangeDeclare,
    Method,
    QueueDeclare,
    decode,
    kind_of,
)

CLASSES: list[Any] = [
    each
    for each in vars(methods).values()
    if isinstance(each, type) and issubclass(each, Method) and each is not Method
]

FIELD_VALUES: dict[fields.FieldType, st.SearchStrategy[Any]] = {
    fields.OCTET: drawn.unsigned(8),
    fields.SHORT: drawn.unsigned(16),
    fields.LONG: drawn.unsigned(32),
    fields.LONGLONG: drawn.unsigned(64),
    fields.SHORTSTR: drawn.text(255),
    fields.LONGSTR: st.binary(),
    fields.ARGUMENTS: drawn.tables,
    fields.BIT: st.booleans(),
}


def ids_of(method: Method) -> tuple[int, int]:
    return method.CLASS_ID, method.METHOD_ID


def instances(cls: Any) -> st.SearchStrategy[Method]:
    return st.builds(
        cls,
        **{
            field.name: FIELD_VALUES[cls.__annotations__[field.name].__metadata__[0]]
            for field in dataclasses.fields(cls)
        },
    )


any_method = st.sampled_from(CLASSES).flatmap(instances)


@given(any_method)
def test_round_trip(method: Method):
    payload = method.encode()
    assert decode(payload) == method
    assert decode(payload).encode() == payload


@given(any_method, st.binary(min_size=1, max_size=5))
def test_trailing_bytes(method: Method, trailing: bytes):
    with pytest.raises(FrameError, match="cannot decode <<") as raised:
        decode(method.encode() + trailing)
    assert (raised.value.class_id, raised.value.method_id) == METHOD_IDS[method.NAME]


@pytest.mark.parametrize("cls", CLASSES)
def test_cut_at_every_byte(cls: Any):
    payload = cls().encode()
    for end in range(4):
        with pytest.raises(FrameError):
            decode(payload[:end])
    for end in range(4, len(payload)):
        with pytest.raises(FrameError, match="cannot decode <<") as raised:
            decode(payload[:end])
        assert (raised.value.class_id, raised.value.method_id) == METHOD_IDS[cls.NAME]


def test_cut_at_every_byte_with_a_table_in_it():
    payload = QueueDeclare(queue="q", arguments={"x-max-length": 5, "deep": [{"k": "v"}]}).encode()
    for end in range(len(payload)):
        with pytest.raises(FrameError):
            decode(payload[:end])


@given(st.sampled_from(sorted(METHOD_IDS.values())), st.binary(max_size=60))
def test_any_arguments_give_a_method_or_a_fault(ids: tuple[int, int], arguments: bytes):
    payload = fields.SHORT.write(ids[0]) + fields.SHORT.write(ids[1]) + arguments
    try:
        named: Method | Fault = decode(payload)
    except Fault as fault:
        named = fault
    blamed = (named.class_id, named.method_id) if isinstance(named, Fault) else ids_of(named)
    assert blamed == ids


def test_every_number_has_its_class():
    assert {cls.NAME for cls in CLASSES} == set(METHOD_IDS)
    assert {methods.__dict__[name] for name in methods.__all__} == {
        *CLASSES,
        Method,
        decode,
        kind_of,
    }
    for cls in CLASSES:
        assert ids_of(cls) == METHOD_IDS[cls.NAME]
        words = cls.NAME.replace(".", " ").replace("-", " ").title().replace(" ", "")
        assert cls.__name__ == words


@pytest.mark.parametrize("payload", [b"\x00\x32\x00\x63", b"\x00\x32\x00\x63rest"])
def test_unknown_method(payload: bytes):
    with pytest.raises(CommandInvalid, match=r"COMMAND_INVALID - unknown method \{50,99\}"):
        decode(payload)


def test_the_kind_is_known_by_the_numbers_alone():
    for cls in CLASSES:
        numbers = cls().encode()[:4]
        assert kind_of(numbers) is kind_of(numbers + b"anything") is cls
    for payload in (b"", b"\x00\x32\x00", b"\x00\x32\x00\x63"):
        assert kind_of(payload) is None


def test_malformed_arguments_are_shown_as_rabbitmq_shows_them():
    with pytest.raises(FrameError) as raised:
        decode(b"\x00\x3c\x00\x0a\x00\x00")
    assert raised.value.text == "FRAME_ERROR - cannot decode <<0,0>>"
    assert raised.value.logged == "FRAME_ERROR - cannot decode 2 octets"
    with pytest.raises(FrameError) as raised:
        decode(BasicQos().encode() + bytes(100_000))
    assert len(raised.value.text) == 255
    assert raised.value.text.endswith("...")


def test_short_string_must_be_utf8():
    with pytest.raises(SyntaxFault, match="Malformed UTF-8 in shortstr") as raised:
        decode(b"\x00\x3c\x00\x1e\x01\xff\x00")
    assert (raised.value.class_id, raised.value.method_id) == (60, 30)


def test_fault_in_a_table_names_the_method():
    payload = QueueDeclare(queue="q", arguments={"k": None}).encode()
    with pytest.raises(SyntaxFault, match="unknown table field type") as raised:
        decode(payload[:-1] + b"Z")
    assert (raised.value.class_id, raised.value.method_id) == (50, 10)


def test_reserved_fields_are_zero_and_not_looked_at():
    payload = QueueDeclare(queue="q").encode()
    assert payload[4:6] == b"\x00\x00"
    assert decode(payload[:4] + b"\x12\x34" + payload[6:]) == QueueDeclare(queue="q")
    assert "reserved_1" not in {field.name for field in dataclasses.fields(QueueDeclare)}


def test_bits_share_an_octet_and_unused_ones_are_ignored():
    payload = BasicAck(delivery_tag=1, multiple=True).encode()
    assert payload[-1] == 0b1
    assert decode(payload[:-1] + b"\xfe") == BasicAck(delivery_tag=1, multiple=False)
    flags = ExchangeDeclare(passive=True, auto_delete=True, no_wait=True).encode()[-5]
    assert flags == 0b10101


def test_methods_are_frozen_and_have_no_dict():
    method = QueueDeclare(queue="q")
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.queue = "r"  # type: ignore[misc]
    assert not hasattr(method, "__dict__")


@pytest.mark.parametrize(
    "method", [QueueDeclare(queue="q" * 256), BasicQos(prefetch_count=-1), BasicAck(1 << 64)]
)
def test_what_does_not_fit_is_our_mistake(method: Method):
    with pytest.raises(ValueError):  # noqa: PT011 - the texts are for the log only
        method.encode()
