"""Sets of filters: they find what each of their filters finds by itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.filters.trees import NUMBERS, PATTERNS, TEXTS, expressions, messages

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value
from leporid.engine.selectors.filter import Conjunction, Filter
from leporid.engine.selectors.selector import Selector
from leporid.engine.selectors.selector_set import SelectorSet
from leporid.engine.selectors.tags import Tags
from leporid.filters.compiler import compile_tree, program
from leporid.filters.dialects import Dialect
from leporid.filters.messages import FilteredMessage
from leporid.filters.nodes import (
    And,
    Between,
    Comparison,
    Header,
    In,
    JmsDeliveryMode,
    JmsTimestamp,
    Like,
    Literal,
    Node,
    Not,
    Or,
    Order,
    Property,
    RoutingKey,
    Search,
    SubstringOperator,
    Tag,
)

JMS, ROCKETMQ = Dialect.JMS, Dialect.ROCKETMQ


def selector(text: str, dialect: Dialect = JMS) -> Selector:
    return Selector(program(text, dialect).code)


def encoded(**headers: Value) -> bytes:
    return encode_properties(Properties(headers=headers))


def made_of(*filters: Filter) -> SelectorSet:
    members = SelectorSet()
    for filter_ in filters:
        members.add(filter_)
    return members


def matching(members: SelectorSet, **headers: Value) -> list[int]:
    return sorted(members.matching("e", "k", encoded(**headers)))


# ------------------------------------------------------------------ like each by itself

_names: st.SearchStrategy[Node] = st.one_of(
    st.builds(Header, st.sampled_from(("a", "b", "x-tag"))),
    st.builds(Property, st.sampled_from(("type", "priority"))),
    st.builds(RoutingKey),
)
_constants = st.builds(Literal, st.sampled_from([*TEXTS[:8], *NUMBERS, 0, 5, -5, 1000]))
_texts = st.builds(Literal, st.sampled_from(TEXTS[:8]))


def _chains(names: st.SearchStrategy[Node], items: st.SearchStrategy[Literal]):
    """What is taken apart: conditions of a name and a constant, and what they are joined to."""
    leaves = st.one_of(
        st.builds(Comparison, st.sampled_from(Order), names, _constants),
        st.builds(Comparison, st.sampled_from(Order), _constants, names),
        st.builds(Between, names, _constants, _constants),
        st.builds(In, names, st.lists(items, min_size=1, max_size=3).map(tuple)),
        st.builds(Like, names, st.sampled_from(PATTERNS), st.none()),
        st.builds(
            Search,
            st.just(SubstringOperator.STARTSWITH),
            names,
            st.sampled_from(TEXTS[:8]),
            st.booleans(),
        ),
    )
    return st.recursive(
        leaves | st.builds(Not, leaves),
        lambda inner: (
            st.builds(And, inner, inner) | st.builds(Or, inner, inner) | st.builds(Not, inner)
        ),
        max_leaves=8,
    )


_jms_names = _names | st.builds(JmsDeliveryMode) | st.builds(JmsTimestamp)
_chained = st.tuples(st.just(JMS), _chains(_jms_names, _constants)) | st.tuples(
    st.just(ROCKETMQ), _chains(_names | st.builds(Tag), _texts)
)
_selectors = (expressions | _chained).map(lambda one: Selector(compile_tree(one[1], one[0]).code))
_tags = st.lists(st.sampled_from((b"a", b"b", b"5", b"")), max_size=3, unique=True).map(Tags)
_single = _selectors | _tags | st.builds(Filter)
filters = _single | st.builds(Conjunction, _single, _single | st.builds(Conjunction, _tags, _tags))


class World:
    """A set, and what its members are."""

    def __init__(self) -> None:
        self.members = SelectorSet()
        self.filters: dict[int, Filter] = {}

    def add(self, filter_: Filter) -> None:
        number = self.members.add(filter_)
        assert number not in self.filters
        self.filters[number] = filter_

    def remove(self, number: int) -> None:
        self.members.remove(number)
        del self.filters[number]

    def check(self, some: list[FilteredMessage]) -> None:
        assert len(self.members) == len(self.filters)
        for message in some:
            raw = encode_properties(message.properties)
            names = message.exchange, message.routing_key
            alone = [n for n, one in self.filters.items() if one.matches_message(*names, raw)]
            assert sorted(self.members.matching(*names, raw)) == sorted(alone)


def run(begin: list[Filter], rounds: int, data: st.DataObject) -> None:
    world = World()
    for one in begin:
        world.add(one)
    for _ in range(rounds):
        world.check(data.draw(st.lists(messages, min_size=1, max_size=4)))
        for _ in range(data.draw(st.integers(0, len(world.filters)))):
            world.remove(data.draw(st.sampled_from(sorted(world.filters))))
        for one in data.draw(st.lists(filters, max_size=3)):
            world.add(one)
    world.check(data.draw(st.lists(messages, min_size=1, max_size=4)))


@settings(max_examples=10)
@given(st.lists(filters, max_size=4), st.data())
def test_a_set_finds_what_each_member_would_let_pass(begin, data):
    run(begin, 0, data)


@pytest.mark.slow
@settings(max_examples=160)
@given(st.lists(filters, max_size=12), st.data())
def test_sets_that_change_find_what_each_member_would_let_pass(begin, data):
    run(begin, 3, data)


def test_a_place_is_looked_at_also_when_only_a_whole_program_asks_for_it():
    """An index needs the value of such a place, which no conjunct reads."""
    for text, dialect, properties in (
        ("TAGS = 'x' OR TAGS = 'y'", ROCKETMQ, Properties(headers={"x-tag": "y"})),
        ("TAGS STARTSWITH 'y'", ROCKETMQ, Properties(headers={"x-stream-filter-value": "yes"})),
        ("JMSDeliveryMode = 'PERSISTENT' OR a = 1", JMS, Properties(delivery_mode=2)),
        ("JMSDeliveryMode LIKE 'P%'", JMS, Properties(delivery_mode=2)),
        ("JMSTimestamp = 5000 OR JMSTimestamp = 7000", JMS, Properties(timestamp=7)),
    ):
        members = made_of(selector(text, dialect))
        raw = encode_properties(properties)
        assert members.matching("e", "k", raw) == [0], text
        assert members.matching("e", "k", encode_properties(Properties(headers={"b": 1}))) == []
        members.remove(0)
        assert members.matching("e", "k", raw) == []


# ------------------------------------------------------------------ who is asked


def asked(members: SelectorSet, **headers: Value) -> int:
    """How many members are asked about a message."""
    before = members.counts
    found = len(matching(members, **headers))
    after = members.counts
    assert after[0] - before[0] == len(members)
    assert after[2] - before[2] == found
    return after[1] - before[1]


def test_what_is_indexed_under_another_value_is_not_asked():
    members = made_of(*(selector(f"origin = 'O{n}' AND delay > {n}") for n in range(100)))
    assert members.indexed == 100
    assert asked(members, origin="O5", delay=6) == 1
    assert matching(members, origin="O5", delay=6) == [5]
    assert asked(members, origin="O5", delay=5) == 1
    assert asked(members, origin="nowhere", delay=1000) == 0
    assert asked(members, delay=1000) == 0


def test_tags_are_looked_up():
    members = made_of(*(Tags([b"all", b"t%d" % n]) for n in range(50)))
    assert asked(members, **{"x-tag": "t7"}) == 1
    assert matching(members, **{"x-tag": "t7"}) == [7]
    assert asked(members, **{"x-tag": "all"}) == 50
    assert asked(members) == 0


def test_text_is_read_as_a_number_where_the_dialect_says_so():
    members = made_of(selector("n = 5", ROCKETMQ), selector("n = 6", ROCKETMQ))
    assert matching(members, n="5") == [0]
    assert matching(members, n=6) == [1]


def test_properties_and_names_are_looked_up_too():
    members = made_of(
        selector("routing_key = 'k'"),
        selector("exchange = 'e'"),
        selector("p.type = 't'"),
        selector("JMSDeliveryMode = 'PERSISTENT'"),
        selector("JMSTimestamp = 5000"),
        selector("JMSTimestamp BETWEEN 4000 AND 6000"),
    )
    assert members.indexed == 5
    raw = encode_properties(Properties(type="t", timestamp=5, delivery_mode=2))
    assert sorted(members.matching("e", "k", raw)) == [0, 1, 2, 3, 4, 5]
    # What one message had, the next one does not have.
    assert members.matching("", "", encoded()) == []


def test_the_first_of_a_name_counts_also_if_it_is_nothing():
    raw = b"\x20\x00\x00\x00\x00\x07" + b"\x01aV" + b"\x01ab\x01"
    assert made_of(selector("a = 1")).matching("", "", raw) == []
    assert made_of(selector("a IS NULL")).matching("", "", raw) == [0]


def test_malformed_properties_match_nobody_and_are_forgotten():
    members = made_of(selector("a = 1"), selector("p.type = 't'"))
    for raw in (b"", b"\x20\x00\xff\xff\xff\xff", b"\x20\x00\x00\x00\x00\x07\x01ab\x01\x01bS\xff"):
        assert members.matching("", "", raw) == []
    assert matching(members, b=1) == []
    assert matching(members, a=1) == [0]


# ------------------------------------------------------------------ coming and going


def test_numbers_are_given_again():
    members = SelectorSet()
    numbers = [members.add(Filter()) for _ in range(20)]
    assert numbers == list(range(20))
    for number in (3, 7):
        members.remove(number)
    assert sorted(matching(members)) == [n for n in numbers if n not in (3, 7)]
    assert sorted([members.add(Filter()), members.add(Filter())]) == [3, 7]
    assert len(members) == 20


def test_who_is_not_there_cannot_go():
    members = made_of(Filter())
    for number in (1, 1000):
        with pytest.raises(KeyError):
            members.remove(number)
    members.remove(0)
    with pytest.raises(KeyError):
        members.remove(0)
    with pytest.raises(TypeError):
        members.add(None)  # type: ignore[arg-type]


def test_a_filter_may_be_in_it_several_times():
    one = selector("a = 1")
    members = made_of(one, one)
    assert matching(members, a=1) == [0, 1]
    members.remove(0)
    assert matching(members, a=1) == [1]


# ------------------------------------------------------------------ places that are made of others


@pytest.mark.parametrize(
    ("text", "dialect", "properties"),
    [
        ("TAGS = 'a' OR b = 'z'", ROCKETMQ, Properties(headers={"x-tag": "a"})),
        ("NOT (NOT (TAGS = 'a')) OR b IN ('y', 'z')", ROCKETMQ, Properties(headers={"x-tag": "a"})),
        ("JMSDeliveryMode = 'PERSISTENT' OR b = 'z'", JMS, Properties(delivery_mode=2)),
        ("JMSTimestamp = 5000 OR b = 'z'", JMS, Properties(timestamp=5)),
        ("JMSDeliveryMode LIKE 'PERS%' OR b = 'z'", JMS, Properties(delivery_mode=2)),
    ],
)
def test_either_side_may_ask_for_what_is_made_of_others(text, dialect, properties):
    members = made_of(selector(text, dialect))
    assert members.indexed == 1
    assert members.matching("e", "k", encode_properties(properties)) == [0]
    members.remove(0)
    members.add(selector("b = 'z'"))
    assert members.matching("e", "k", encode_properties(properties)) == []
