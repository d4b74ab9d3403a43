"""What bindings of headers exchanges ask of headers.

That values compare as in Python, for every type, is a property in
tests/broker/exchange/types/test_headers.py.
"""

from collections.abc import Mapping
from decimal import Decimal

import pytest

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Timestamp, Value
from leporid.amqp.values import comparable
from leporid.engine.selectors.filter import Conjunction
from leporid.engine.selectors.header_match import HeaderMatch, can_compare
from leporid.engine.selectors.selector_set import SelectorSet
from leporid.engine.selectors.tags import Tags


def wanting(terms: Mapping[str, Value], some: bool = False) -> HeaderMatch:
    """A void term asks for presence."""
    return HeaderMatch(
        [
            (name.encode(), None if value is None else comparable(value))
            for name, value in terms.items()
        ],
        some,
    )


def encoded(table: Mapping[str, Value]) -> bytes:
    return encode_properties(Properties(headers=dict(table)))


def says(one: HeaderMatch, table: Mapping[str, Value]) -> int:
    return one.outcome("x", "", encoded(table))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 300])
@pytest.mark.parametrize("some", [False, True])
def test_any_number_of_terms(count: int, some: bool):
    terms: dict[str, Value] = {f"n{n}": n for n in range(count)}
    one = wanting(terms, some)
    assert (len(one), one.any) == (count, some)
    assert says(one, terms) == 1
    assert says(one, {"other": 1} | dict(reversed(terms.items()))) == 1
    assert says(one, terms | {"n0": -1}) == int(some and count > 1)
    del terms["n0"]
    assert says(one, terms) == int(some and count > 1)
    assert says(one, {"n0": 0, "other": 1}) == int(some or count == 1)
    assert says(one, {"n0": -1}) == 0
    assert one.outcome("x", "", b"\0\0") == 0


def test_no_terms():
    assert [says(wanting({}, some), {"a": 1}) for some in (False, True)] == [1, 0]


def test_of_several_headers_with_one_name_the_first_counts():
    one, two = (b"\x01a" + value for value in (b"b\x01", b"b\x02"))
    for some in (False, True):
        match = wanting({"a": 1}, some)
        for sent, met in ((one + two, 1), (two + one, 0)):
            size = len(sent).to_bytes(4, "big")
            assert match.outcome("x", "", b"\x20\0" + size + sent) == met


@pytest.mark.parametrize("value", [[1], [], {"k": 1}, {}, Timestamp(2**63)])
def test_what_is_left_to_python(value: Value):
    assert not can_compare(comparable(value))
    with pytest.raises(ValueError, match="not compared here"):
        wanting({"a": value})
    assert says(wanting({"a": 1}), {"a": value}) == 0
    assert says(wanting({"a": None}), {"a": value}) == 1


def test_decimals_are_equal_with_equal_scales_only():
    one = wanting({"a": Decimal("1.50")})
    assert can_compare(comparable(Decimal("1.50")))
    assert [says(one, {"a": each}) for each in (Decimal("1.50"), Decimal("1.5"), 1.5)] == [1, 0, 0]
    assert says(one, {"a": Decimal("-1.50")}) == 0


def test_in_a_set_it_is_found_by_its_rarest_value():
    members = SelectorSet()
    for number in range(1000):
        members.add(wanting({"common": "eu", "own": number}))
    assert members.indexed == 1000
    evaluated = members.counts[1]
    assert members.matching("x", "", encoded({"common": "eu", "own": 7.0})) == [7]
    # One was found by the value that all have, as it was the first.
    assert members.counts[1] - evaluated <= 2


def test_in_a_set_it_is_found_by_any_of_its_values_if_one_is_enough():
    members = SelectorSet()
    numbers = [members.add(wanting({"a": n, "b": f"text {n}"}, True)) for n in range(100)]
    assert members.indexed == 100
    assert members.matching("x", "", encoded({"a": 3, "b": "text 7"})) == [3, 7]
    assert members.matching("x", "", encoded({"b": b"text 9"})) == [9]
    for number in numbers[:50]:
        members.remove(number)
    assert members.matching("x", "", encoded({"a": 3, "b": "text 77"})) == [77]


@pytest.mark.parametrize("terms", [{"a": None}, {"a": True}, {"a": Decimal(1)}])
def test_in_a_set_it_is_asked_about_every_message_if_no_value_finds_it(terms: dict[str, Value]):
    members = SelectorSet()
    members.add(wanting(terms))
    members.add(wanting(terms | {"b": 5}, True))
    assert members.indexed == 0
    sent: dict[str, Value] = {"a": True if terms["a"] is None else terms["a"]}
    assert members.matching("x", "", encoded(sent)) == [0, 1]
    assert members.matching("x", "", encoded({"b": 5})) == [1]


def test_in_a_set_beside_another_filter_of_the_same_binding():
    members = SelectorSet()
    members.add(Conjunction(wanting({"a": 1}), Tags([b"t"])))
    assert members.matching("x", "", encoded({"a": 1, "x-tag": "t"})) == [0]
    assert members.matching("x", "", encoded({"a": 1})) == []
    assert members.matching("x", "", encoded({"x-tag": "t"})) == []


def test_more_terms_than_a_set_looks_up():
    members = SelectorSet()
    terms: dict[str, Value] = {f"n{n}": n for n in range(40)}
    members.add(wanting(terms))
    members.add(wanting(terms, True))
    assert members.indexed == 1
    assert members.matching("x", "", encoded(terms)) == [0, 1]
    assert members.matching("x", "", encoded({"n39": 39})) == [1]
