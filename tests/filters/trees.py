"""Random expressions of both dialects, random messages, and expressions as text."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import strategies as st

from leporid.amqp import tables
from leporid.amqp.properties import Properties
from leporid.filters.dialects import Dialect
from leporid.filters.messages import FilteredMessage
from leporid.filters.names import PROPERTIES
from leporid.filters.nodes import (
    And,
    Arithmetic,
    Between,
    Comparison,
    Condition,
    Exchange,
    Header,
    In,
    IsNull,
    JmsDeliveryMode,
    JmsTimestamp,
    Like,
    Literal,
    Negative,
    Node,
    Not,
    Operator,
    Or,
    Order,
    Positive,
    Property,
    RoutingKey,
    Search,
    SubstringOperator,
    Tag,
)

HEADERS = (
    "a",
    "b",
    "c",
    "x-tag",
    "x-stream-filter-value",
    "a name with 'quotes' and \"more\"",
    "é",
)

# Few texts and numbers, so that some are equal to others, and each kind of edge once.
TEXTS = (
    "",
    "a",
    "ab",
    "b%_",
    "é",
    "aé€𝄞",
    "5",
    "-5",
    "5.0",
    " 5 ",
    "2.5",
    "1e3",
    "true",
    "TRUE",
    "x" * 300,
)
INTEGERS = (0, 1, 5, -5, 1000, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63))
NUMBERS = (0.5, 2.5, 5.0, -5.0, 1000.0, 2.0**53, 2.0**63, -(2.0**63), 1e300, 1e-300)
PATTERNS = ("", "%", "_", "a%", "%a", "%a%", "a_", "_%_", "%é_", "a!%", "5%", "%x%x%x_", "a%€")

texts = st.sampled_from(TEXTS)
integers = st.sampled_from(INTEGERS) | st.integers(-(2**63), 2**63 - 1)
numbers = integers | st.sampled_from(NUMBERS)

_ordinary = st.builds(Header, st.sampled_from(HEADERS)) | st.one_of(
    st.builds(Property, st.sampled_from(PROPERTIES)), st.builds(RoutingKey), st.builds(Exchange)
)
jms_names: st.SearchStrategy[Node] = (
    _ordinary | st.builds(JmsDeliveryMode) | st.builds(JmsTimestamp)
)
rocketmq_names: st.SearchStrategy[Node] = _ordinary | st.builds(Tag)

orders = st.sampled_from(Order)


def maybe_not(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return nodes | st.builds(Not, nodes)


# ------------------------------------------------------------------ jms


def _jms_numbers() -> st.SearchStrategy[Node]:
    leaves = st.builds(Literal, numbers) | jms_names
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(Arithmetic, st.sampled_from(Operator), inner, inner)
            | st.builds(Positive, jms_names)
            | st.builds(
                Negative, jms_names | st.builds(Arithmetic, st.just(Operator.ADD), inner, inner)
            )
        ),
        max_leaves=4,
    )


def jms_conditions() -> st.SearchStrategy[Node]:
    number, text = _jms_numbers(), st.builds(Literal, texts) | jms_names
    escapes = st.sampled_from((None, "!"))
    constants = st.builds(Literal, numbers) | st.builds(Literal, texts)
    leaves = st.one_of(
        st.builds(Condition, jms_names),
        st.builds(Literal, st.booleans()),
        st.builds(Comparison, orders, number, number),
        st.builds(Comparison, orders, text, text),
        st.builds(Between, number, number, number),
        st.builds(Between, text, text, text),
        st.builds(In, jms_names, st.lists(constants, min_size=1, max_size=4).map(tuple)),
        st.builds(Like, text, st.sampled_from(PATTERNS), escapes),
        st.builds(
            Search, st.sampled_from(SubstringOperator), text, texts.filter(_short), st.booleans()
        ),
        st.builds(IsNull, number | text),
    )
    return st.recursive(
        maybe_not(leaves),
        lambda inner: st.one_of(
            st.builds(And, inner, inner),
            st.builds(Or, inner, inner),
            st.builds(Not, inner),
            st.builds(IsNull, inner.map(_value)),
            st.builds(Comparison, st.just(Order.EQUAL), inner.map(_value), inner.map(_value)),
        ),
        max_leaves=6,
    )


def _short(text: str) -> bool:
    return len(text.encode()) <= 255


def _value(node: Node) -> Node:
    """What a condition is where a value may stand: there, a name is not made one."""
    return node.operand if isinstance(node, Condition) else node


def _equal_or_null(node: Node) -> Node:
    """What is refused as equal becomes another question.

    Neither side is NULL, nor is TRUE or FALSE compared with another constant.
    """
    assert isinstance(node, Comparison)
    left, right = node.left, node.right
    truth_first = isinstance(left, Literal) and isinstance(left.value, bool)
    other = isinstance(right, Literal) and not isinstance(right.value, bool)
    if Literal(None) in (left, right) or (truth_first and other):
        return IsNull(left)
    return node


def _from_low_to_high(node: Node) -> Node:
    """Constants the wrong way round are refused."""
    assert isinstance(node, Between)
    low, high = node.low, node.high
    if isinstance(low, Literal) and isinstance(high, Literal):
        assert isinstance(low.value, int | float)
        assert isinstance(high.value, int | float)
        if low.value > high.value:
            return Between(node.value, high, low)
    return node


# ------------------------------------------------------------------ rocketmq


def rocketmq_conditions() -> st.SearchStrategy[Node]:
    # Neither zero with a point, nor the least integer.
    constants = numbers.filter(lambda value: value != -(2**63) or isinstance(value, float))
    number = st.builds(Literal, constants) | rocketmq_names | st.builds(Negative, rocketmq_names)
    value = number | st.builds(Literal, texts) | st.builds(Literal, st.booleans())
    items = st.lists(st.builds(Literal, texts), min_size=1, max_size=4).map(tuple)
    leaves = st.one_of(
        st.builds(Condition, rocketmq_names),
        st.builds(Literal, st.sampled_from((True, False, None))),
        st.builds(
            Comparison,
            st.sampled_from([one for one in Order if one is not Order.EQUAL]),
            number,
            number,
        ),
        st.builds(Comparison, st.just(Order.EQUAL), value, value).map(_equal_or_null),
        st.builds(Between, number, number, number).map(_from_low_to_high),
        st.builds(In, rocketmq_names, items),
        st.builds(
            Search, st.sampled_from(SubstringOperator), value, texts.filter(_short), st.booleans()
        ),
        st.builds(IsNull, value),
    )
    return st.recursive(
        maybe_not(leaves),
        lambda inner: st.one_of(
            st.builds(And, inner, inner),
            st.builds(Or, inner, inner),
            st.builds(Not, inner),
            st.builds(IsNull, inner.map(_value)),
            st.builds(Comparison, st.just(Order.EQUAL), inner.map(_value), inner.map(_value)).map(
                _equal_or_null
            ),
            st.builds(
                Search,
                st.sampled_from(SubstringOperator),
                inner.map(_value),
                texts.filter(_short),
                st.booleans(),
            ),
        ),
        max_leaves=6,
    )


CONDITIONS = {Dialect.JMS: jms_conditions(), Dialect.ROCKETMQ: rocketmq_conditions()}

expressions = st.sampled_from(Dialect).flatmap(
    lambda dialect: st.tuples(st.just(dialect), CONDITIONS[dialect])
)

# ------------------------------------------------------------------ messages


def _small(kind: type[int], low: int, high: int) -> st.SearchStrategy[tables.Value]:
    fitting = [value for value in INTEGERS if low <= value <= high]
    return (st.sampled_from(fitting) | st.integers(low, high)).map(kind)


octets = texts.map(str.encode) | st.binary(max_size=6)
fields: st.SearchStrategy[tables.Value] = st.one_of(
    st.none(),
    st.booleans(),
    _small(tables.Int8, -128, 127),
    _small(tables.UInt8, 0, 255),
    _small(tables.Int16, -(2**15), 2**15 - 1),
    _small(tables.UInt16, 0, 2**16 - 1),
    _small(tables.Int32, -(2**31), 2**31 - 1),
    _small(tables.UInt32, 0, 2**32 - 1),
    integers,
    integers.map(tables.Int64L),
    st.sampled_from((0, 5, 2**63 - 1, 2**63, 2**64 - 1)).map(tables.Timestamp),
    st.sampled_from(NUMBERS) | st.floats(allow_nan=False, allow_infinity=False),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(tables.Float32),
    st.builds(
        lambda unscaled, scale: Decimal(
            (int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale)
        ),
        st.sampled_from((0, 5, 50, -5, 2**31 - 1, -(2**31), 123456789)),
        st.sampled_from((0, 1, 2, 9, 22, 23, 40, 255)),
    ),
    texts,
    octets.map(tables.ByteArray),
    st.sampled_from((b"\xff", b"a\xff", b"\x80", b"a\xc3")).map(tables.LongString),
    st.just({"a": 5}),
    st.just([1, "a"]),
)

_text_properties = [
    name for name in PROPERTIES if name not in ("priority", "timestamp", "delivery_mode")
]
_short_texts = texts.filter(_short)
properties = st.builds(
    Properties,
    headers=st.none()
    | st.dictionaries(st.sampled_from(HEADERS) | st.text(max_size=3), fields, max_size=6),
    priority=st.none() | st.sampled_from((0, 5, 255)),
    delivery_mode=st.none() | st.sampled_from((0, 1, 2)),
    timestamp=st.none()
    | st.sampled_from((0, 5, 2**63 // 1000, 2**63 // 1000 + 1, 2**63 - 1, 2**63, 2**64 - 1)),
    **{name: st.none() | _short_texts for name in _text_properties},
)
messages = st.builds(FilteredMessage, properties, _short_texts, _short_texts)

# ------------------------------------------------------------------ as text

_JMS_NAMES = {JmsDeliveryMode: "JMSDeliveryMode", JmsTimestamp: "JMSTimestamp"}


def text_of(node: Node) -> str:
    """An expression that is parsed into this tree again; each part is in parentheses."""
    match node:
        case Literal(value):
            return _constant(value)
        case Header(name):
            return '"' + name.replace('"', '""') + '"'
        case Property(name):
            return f"p.{name}"
        case RoutingKey():
            return "routing_key"
        case Exchange():
            return "exchange"
        case Tag():
            return "TAGS"
        case JmsDeliveryMode() | JmsTimestamp():
            return _JMS_NAMES[type(node)]
        case Condition(operand):
            return text_of(operand)
        case Not(In() | Between() | Like() | IsNull() as operand):
            word = " IS " if isinstance(operand, IsNull) else f" {type(operand).__name__.upper()} "
            instead = " IS NOT " if isinstance(operand, IsNull) else f" NOT{word}"
            # The last one is the operator: what stands before it may have the same word in it.
            before, _, after = _plain(operand).rpartition(word)
            return before + instead + after
        case Not(Comparison(Order.EQUAL, left, right)):
            return f"{_in(left)} <> {_in(right)}"
        case Not(operand):
            return f"NOT {_in(operand)}"
    return _plain(node)


def _plain(node: Node) -> str:
    match node:
        case Negative(operand):
            return f"- {_in(operand)}"
        case Positive(operand):
            return f"+ {_in(operand)}"
        case And(left, right):
            return f"{_in(left)} AND {_in(right)}"
        case Or(left, right):
            return f"{_in(left)} OR {_in(right)}"
        case Comparison(order, left, right):
            return f"{_in(left)} {order} {_in(right)}"
        case Arithmetic(operator, left, right):
            return f"{_in(left)} {operator} {_in(right)}"
        case Between(value, low, high):
            return f"{_in(value)} BETWEEN {_in(low)} AND {_in(high)}"
        case In(value, items):
            return f"{text_of(value)} IN ({', '.join(text_of(item) for item in items)})"
        case Like(value, pattern, escape):
            ending = f" ESCAPE {_constant(escape)}" if escape else ""
            return f"{_in(value)} LIKE {_constant(pattern)}{ending}"
        case Search(operator, value, text, negated):
            return f"{_in(value)} {'NOT ' * negated}{operator} {_constant(text)}"
        case IsNull(operand):
            return f"{_in(operand)} IS NULL"
    raise AssertionError(node)


def _in(node: Node) -> str:
    return f"({text_of(node)})"


def _constant(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)
