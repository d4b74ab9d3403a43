"""Selectors: expressions of text, run over a message, and programs of any bytes.

An input begins with what it is, then parts with SEPARATOR between them:

    j, r   an expression in the dialect jms or rocketmq, then properties of messages
    t      a list of tags, then properties
    p      the bytes of a program, then properties

The refusals are `FilterError` for a text, `ValueError` for a program. What the engine makes of an
expression must be what the naive interpreter says; a set of selectors, what each says by itself;
and a program of n instructions takes no more than its steps, whatever it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from fuzz.drawing import Drawing

from leporid.amqp.errors import SyntaxFault
from leporid.amqp.properties import Properties, decode_properties, encode_properties
from leporid.amqp.tables import Value
from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.selector import Selector
from leporid.engine.selectors.selector_set import SelectorSet
from leporid.engine.selectors.tags import Tags
from leporid.filters.compiler import compile_tree
from leporid.filters.dialects import Dialect
from leporid.filters.errors import FilterError
from leporid.filters.explanation import Explanation
from leporid.filters.interpreter import evaluate
from leporid.filters.limits import CHARACTERS_MAX
from leporid.filters.messages import FilteredMessage
from leporid.filters.parser import parse
from leporid.filters.tags import parse_tags

SEPARATOR: Final = b"\xfe\xce"
EXCHANGE: Final = "e"
KEY: Final = "a.b"
NAMES: Final = b"\1e\3a.b"
_DIALECTS: Final = {b"j": Dialect.JMS, b"r": Dialect.ROCKETMQ}
# Of the second octet; the data plane refuses it, and the control plane does not look at it.
RESERVED_FLAG: Final = 2
# Of a program: its instructions, each of which may look through a pattern or a list.
STEPS_MAX: Final = 1 << 22


def one(data: bytes) -> None:
    """Compile what stands first, and ask it about the rest."""
    first, *messages = data[1:].split(SEPARATOR)
    kind = data[:1]
    try:
        if kind in _DIALECTS:
            _expression(first, _DIALECTS[kind], messages)
        elif kind == b"t":
            tags = parse_tags(_text(first))
            if tags is not None:
                _alone_and_in_a_set([Tags([each.encode() for each in tags])], messages)
        else:
            _program(first, messages)
    except FilterError as error:
        assert 0 <= error.position <= len(error.text)
        error.pointer().encode("utf-8", "surrogatepass")


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "replace")[: CHARACTERS_MAX + 2]


def _expression(octets: bytes, dialect: Dialect, messages: list[bytes]) -> None:
    text = _text(octets)
    tree = parse(text, dialect)
    filter_ = Selector(compile_tree(tree, dialect).code)
    for properties in messages:
        outcome = filter_.outcome(EXCHANGE, KEY, properties)
        assert filter_.work(NAMES, properties) <= STEPS_MAX
        if not _is_sound(properties):
            continue
        message = FilteredMessage(decode_properties(properties), EXCHANGE, KEY)
        assert outcome == evaluate(tree, dialect, message).value, text
        str(Explanation(text, tree, dialect, message)).encode("utf-8", "surrogatepass")
    _alone_and_in_a_set([filter_, Selector(compile_tree(tree, dialect).code)], messages)


def _alone_and_in_a_set(filters: list[Filter], messages: list[bytes]) -> None:
    together = SelectorSet()
    numbers = [together.add(each) for each in filters]
    for properties in messages:
        alone = [
            number
            for number, each in zip(numbers, filters, strict=True)
            if each.matches_message(EXCHANGE, KEY, properties)
        ]
        found = together.matching(EXCHANGE, KEY, properties)
        # What is malformed no broker lets in: each may read as far as it must, and no further.
        assert sorted(found) == sorted(alone) or not _is_sound(properties)
    for number in numbers:
        together.remove(number)


def _is_sound(properties: bytes) -> bool:
    """Whether the broker lets a message in that has these."""
    if len(properties) > 1 and properties[1] & RESERVED_FLAG:
        return False
    try:
        decode_properties(properties)
    except SyntaxFault:
        return False
    return True


def _program(code: bytes, messages: list[bytes]) -> None:
    try:
        filter_ = Selector(code)
    except ValueError:
        return
    for properties in messages:
        assert filter_.outcome(EXCHANGE, KEY, properties) in (1, 0, -1)
        assert filter_.work(NAMES, properties) <= STEPS_MAX
    _alone_and_in_a_set([filter_], messages)


# ------------------------------------------------------------------ seeds and mutations

_EXPRESSIONS: Final = (
    "a = 1",
    "n > 5 AND NOT (b < 1.5 OR c <= -3)",
    "colour IN ('red', 'blue', 'gr''een') OR colour IS NULL",
    "n BETWEEN 1 AND 10",
    "\"x-tag\" LIKE 'a%_b' ESCAPE '!' AND t NOT LIKE '%x%'",
    "p.priority >= 3 AND p.type = 'x' AND p.timestamp > 100",
    "JMSPriority = 4 OR JMSDeliveryMode = 'PERSISTENT' OR JMSTimestamp > 5",
    "routing_key = 'a.b' AND exchange <> 'e'",
    "n + 1 * 2 - 3 / 4 = 5 OR -n = +2 OR n / 0 = 1",
    "a CONTAINS 'x' OR a NOT STARTSWITH 'y' OR a ENDSWITH 'z'",
    "TRUE OR FALSE AND a",
    "TAGS = 'a' OR TAGS IN ('b', 'c')",
    "1e300 * 1e300 > n OR 9223372036854775807 = n OR 0x1f = n",
)
_WORDS: Final = re.compile(r"\s+|\w+|'[^']*'|\"[^\"]*\"|.", re.DOTALL)


def seeds() -> Iterator[bytes]:
    """Expressions of every operator, their programs, and messages."""
    drawing = Drawing(1)
    headers: dict[str, Value] = {"a": "xyz", "n": 7, "b": 1.5, "c": True, "t": None}
    headers |= {"colour": "red", "x-tag": "aqb"}
    message = encode_properties(Properties(headers=headers, priority=4, timestamp=10**10))
    for text in _EXPRESSIONS:
        for letter, dialect in _DIALECTS.items():
            messages = [message, drawing.properties(), b"\0\0"]
            yield SEPARATOR.join([letter + text.encode(), *messages])
            try:
                code = compile_tree(parse(text, dialect), dialect).code
            except FilterError:
                continue
            yield SEPARATOR.join([b"p" + code, *messages])
    yield SEPARATOR.join([b"ta || b||c", message])


def mutate(data: bytes, drawing: Drawing) -> bytes:
    """Change an expression by whole words."""
    first, *messages = data[1:].split(SEPARATOR)
    if drawing.below(4) == 0:
        messages.append(drawing.properties())
    if data[:1] in _DIALECTS:
        words = _WORDS.findall(_text(first))
        others = _WORDS.findall(drawing.one_of(_EXPRESSIONS))
        at, other = drawing.below(len(words) + 1), drawing.below(len(others))
        match drawing.below(3):
            case 0:
                words[at:at] = [" ", *others[other : other + 1 + drawing.below(6)], " "]
            case 1:
                del words[at : at + 1 + drawing.below(3)]
            case _:
                words[at:at] = [
                    " ",
                    drawing.one_of(("AND", "OR", "NOT (", ")", "=", "IS NULL")),
                    " ",
                ]
        first = "".join(words).encode()
    return SEPARATOR.join([data[:1] + first, *messages])
