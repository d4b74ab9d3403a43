"""Headers as they are encoded, against what decoding and encoding them makes of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.engine.frames import array, longstr, properties, table

from leporid.amqp.properties import Properties, decode_properties, encode_properties
from leporid.amqp.tables import Int8, Int64L, LongString, Timestamp, UInt8, decode_table
from leporid.engine.wire.headers import (
    Deaths,
    array_value,
    expiration_of,
    field_in,
    first_in,
    header_of,
    number_in,
    number_value,
    table_value,
    text_in,
    text_value,
    texts_in,
    with_headers,
    with_reply_to,
)

names = st.sampled_from(["CC", "BCC", "x-death", "a", "b", "count", "queue", "é", ""])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=4),
    st.sampled_from([LongString(b"\xff"), b"x", Int8(-3), UInt8(200), Int64L(4)]),
    st.integers(0, 2**64 - 1).map(Timestamp),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)
headers = st.dictionaries(names, values, max_size=6)
all_properties = st.builds(
    Properties,
    headers=st.none() | headers,
    content_type=st.none() | st.text(max_size=3),
    content_encoding=st.none() | st.text(max_size=3),
    delivery_mode=st.none() | st.just(2),
    expiration=st.none() | st.sampled_from(["", "60"]),
    reply_to=st.none() | st.text(max_size=3),
    message_id=st.none() | st.text(max_size=3),
    timestamp=st.none() | st.just(5),
)


def value_of(encoded: bytes) -> object:
    field = b"\x01v" + encoded
    return decode_table(len(field).to_bytes(4, "big") + field)[0]["v"]


def encoded(value: object) -> bytes:
    raw = encode_properties(Properties(headers={"v": value}))  # type: ignore[dict-item]
    return raw[2 + 4 + 2 :]


@given(all_properties, names)
def test_a_header_is_found_as_it_is_encoded(given, name):
    found = header_of(encode_properties(given), name.encode())
    known = given.headers or {}
    if name not in known:
        assert found is None
    else:
        assert found == encoded(known[name])


@given(all_properties, st.dictionaries(names, st.none() | scalars, max_size=4), st.booleans())
def test_headers_change_as_if_they_were_decoded(given, changes, expires):
    raw = encode_properties(given)
    wanted = dict(given.headers or {})
    encoded_changes = {}
    for name, value in changes.items():
        encoded_changes[name.encode()] = None if value is None else encoded(value)
        if value is None:
            wanted.pop(name, None)
        else:
            wanted[name] = value
    left = given.expiration if expires else None
    assert with_headers(raw, encoded_changes, expires) == encode_properties(
        replace(given, headers=wanted, expiration=left)
    )


@given(all_properties)
def test_other_properties(given):
    raw = encode_properties(given)
    assert expiration_of(raw) == given.expiration
    if given.reply_to is not None:
        assert with_reply_to(raw, "there") == encode_properties(replace(given, reply_to="there"))


@given(values)
def test_texts_and_numbers(value):
    raw = encoded(value)
    assert text_in(raw) == (value if type(value) is str else None)
    if isinstance(value, list):
        assert texts_in(raw) == [each for each in value if isinstance(each, str)]
    else:
        assert texts_in(raw) == []
    if isinstance(value, int) and value < 2**63:
        assert number_in(raw) == value
    elif not isinstance(value, int):
        assert number_in(raw) is None


@given(values, names)
def test_parts_of_values(value, name):
    raw = encoded(value)
    first = encoded(value[0]) if isinstance(value, list) and value else None
    assert first_in(raw) == first
    there = isinstance(value, dict) and name in value
    assert field_in(raw, name.encode()) == (encoded(value[name]) if there else None)


def test_nothing_has_no_parts():
    assert first_in(None) is None
    assert field_in(None, b"a") is None


@pytest.mark.parametrize("cut", range(1, 12))
def test_parts_of_what_does_not_parse(cut):
    whole = longstr("12345")
    for ask, raw in (
        (first_in, array_value([whole[:-cut]])),
        (lambda raw: field_in(raw, b"b"), table_value({b"a": whole[:-cut]})),
    ):
        if cut < len(whole):
            with pytest.raises(ValueError, match="does not parse"):
                ask(raw)


def test_values():
    assert value_of(text_value("é")) == "é"
    assert value_of(number_value(-5)) == -5
    assert type(value_of(number_value(5, b"T"))) is Timestamp
    assert value_of(array_value([text_value("a"), number_value(1)])) == ["a", 1]
    assert value_of(table_value({b"a": text_value("b")})) == {"a": "b"}


def test_of_two_headers_of_a_name_the_first_counts_and_both_go():
    raw = properties(headers=table(a=longstr("1"))[:3] + b"\x10" + 2 * table(a=longstr("1"))[4:])
    assert len(decode_properties(raw).headers or {}) == 1
    assert header_of(raw, b"a") == longstr("1")
    assert with_headers(raw, {b"a": None}) == properties(headers=table())
    assert with_headers(raw, {b"a": text_value("2")}) == properties(headers=table(a=longstr("2")))


@pytest.mark.parametrize("raw", [b"", b"\x20\x00", b"\x20\x00\0\0\0\x09\x01", b"\0\0\0"])
def test_what_does_not_parse_is_refused(raw):
    for ask in (
        lambda: header_of(raw, b"a"),
        lambda: with_headers(raw, {}),
        lambda: expiration_of(raw),
        lambda: with_reply_to(raw, "a"),
    ):
        with pytest.raises(ValueError, match=r"parse|without"):
            ask()
    with pytest.raises(ValueError, match=r"parse|without"):
        texts_in(array(b"V")[:-1] + b"\x07")
    with pytest.raises(ValueError, match=r"parse|without"):
        Deaths(b"A\0\0\0\x01F", "q", "rejected")
    with pytest.raises(ValueError, match=r"parse|without"):
        Deaths(array(b"F\0\0\0\x02\x05c"), "q", "rejected")


# ------------------------------------------------------------- x-death

COUNT_MAX = 2**63 - 1


def same(one: object, queue: str, reason: str) -> bool:
    return isinstance(one, dict) and (one.get("queue"), one.get("reason")) == (queue, reason)


def folded(deaths: list) -> list:
    """One entry for each queue and reason, in Python values; the first one stays."""
    keys = [repr((each.get("queue"), each.get("reason"))) for each in deaths if type(each) is dict]
    counts, found, seen = Counter(keys), [], set()
    for death in deaths:
        if type(death) is dict:
            key = repr((death.get("queue"), death.get("reason")))
            if key in seen:
                continue
            seen.add(key)
            if "count" not in death and len(deaths) > 1:
                death = {**death, "count": counts[key]}
        found.append(death)
    return found


def before(deaths: list) -> set:
    found: set = set()
    for death in deaths:
        if isinstance(death, dict):
            if death.get("reason") == "rejected":
                break
            if isinstance(death.get("queue"), str):
                found.add(death["queue"])
    return found


entries = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.sampled_from(["q", "p", "", 1, b"q", None, LongString(b"\xff"), ["q"]]),
        "reason": st.sampled_from(["rejected", "expired", b"expired", None]),
        "count": st.one_of(st.integers(-5, 5), st.just(COUNT_MAX), scalars),
        "time": st.just(Timestamp(5)),
    },
)


@example([{}, {"queue": None, "reason": None}], "q", "rejected")
@given(
    st.lists(st.one_of(entries, entries, entries, scalars), max_size=8),
    st.sampled_from(["q", "p", "é"]),
    st.sampled_from(["rejected", "expired"]),
)
def test_deaths_are_folded_as_if_they_were_decoded(claimed, queue, reason):
    deaths = Deaths(encoded(claimed), queue, reason)
    expected = folded(claimed)
    own = [each for each in expected if same(each, queue, reason)]
    others = [each for each in expected if not same(each, queue, reason)]
    assert not deaths.first
    assert array_value([deaths.others]) == encoded(others)
    assert (deaths.own is None) == (not own)
    if own:
        count = own[0].get("count")
        count = min(count if isinstance(count, int) else 0, COUNT_MAX - 1) + 1
        assert deaths.own == encoded({**own[0], "count": count})
    if reason != "rejected":
        assert deaths.before | {queue} == before(claimed) | {queue}


@pytest.mark.parametrize("value", [None, longstr("text"), b"V", b"F" + table()])
def test_what_is_no_list_of_deaths_does_not_count(value):
    deaths = Deaths(value, "q", "expired")
    assert (deaths.first, deaths.own, deaths.others) == (True, None, b"")
