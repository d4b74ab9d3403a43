"""The filter that an argument table asks for; the same arguments on bindings and on consumers.

Responsible for reading `x-filter-tags`, `x-filter-sql` with `x-filter-dialect`, and
`x-filter-class`, and for saying what is wrong with them, and where. Must not know what is bound or
consumed, nor what becomes of messages that do not pass. Invariant: what several arguments ask for
must all hold, the cheapest first; a table that is refused leaves nothing behind.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Value
from leporid.amqp.values import type_name
from leporid.engine.selectors.filter import Conjunction, Filter
from leporid.engine.selectors.selector import Selector
from leporid.engine.selectors.tags import Tags
from leporid.filters.compiler import program
from leporid.filters.dialects import DEFAULT, Dialect
from leporid.filters.errors import FilterError, quoted
from leporid.filters.tags import parse_tags
from leporid.filters.tokens import tokenize

T = TypeVar("T")

TAGS: Final = "x-filter-tags"
SQL: Final = "x-filter-sql"
DIALECT: Final = "x-filter-dialect"
CLASS: Final = "x-filter-class"

FILTER_ARGUMENTS: Final = (TAGS, SQL, DIALECT, CLASS)
"""Arguments that ask for a filter; nothing else reads them."""

TAG_NAME: Final = "TAGS"
"""RocketMQ's name for the tag in expressions."""

_TAG_IS_A_HEADER: Final = (
    f"{TAG_NAME} is a header in the dialect jms; did you mean {{}}, or the dialect rocketmq? "
    f'The header is "{TAG_NAME}" in double quotes'
)

PREFIX: Final = "x-filter"
"""What begins so and is none of them is a mistake: it would be kept, and filter nothing."""


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """What was asked for, compiled.

    Attributes:
        engine: all of it.
        tags: the part of it that a message's tag decides, if there is one.
        selector: the expression, if there is one.
    """

    engine: Filter
    tags: Tags | None = None
    selector: Selector | None = None


def filter_of(
    arguments: Mapping[str, Value], known: Callable[[str], object] | None = None
) -> MessageFilter | None:
    """Return the filter that arguments ask for; None if every message passes.

    A filter class is not part of it: `class_of` says which.

    Args:
        arguments: the table.
        known: raises NotFound for a class that is not registered; None: it does not matter.

    Raises:
        PreconditionFailed: one of them is wrong; the text says what, and at which character.
        NotFound: the filter class is not registered.
    """
    if not any(name in arguments for name in FILTER_ARGUMENTS):
        return None
    tags, selector = _tags(arguments), _selector(arguments)
    name = class_of(arguments)
    if name is not None and known is not None:
        known(name)
    if tags is None or selector is None:
        one = selector if tags is None else tags
        return None if one is None else MessageFilter(one, tags, selector)
    return MessageFilter(Conjunction(tags, selector), tags, selector)


def check_names(arguments: Mapping[str, Value]) -> None:
    """Check that what looks like the name of such an argument is one.

    Not where a binding is restored, nor where it compares headers of such names.

    Raises:
        PreconditionFailed: it is none; the text says what there is.
    """
    for name in arguments:
        if not name.startswith(PREFIX) or name in FILTER_ARGUMENTS:
            continue
        match = arguments.get("x-match")
        if not isinstance(match, str) or not match.endswith("-with-x"):
            near = difflib.get_close_matches(name, FILTER_ARGUMENTS, 1, cutoff=0.9)
            there = (
                f"did you mean {near[0]}?" if near else f"there are {', '.join(FILTER_ARGUMENTS)}"
            )
            raise _refusal(name, f"there is none of that name; {there}")


def doubts(
    arguments: Mapping[str, Value], names: tuple[str, str, str] = (TAGS, SQL, DIALECT)
) -> Iterator[tuple[str, str]]:
    """Yield the filters that are right and probably match nothing: the argument, and why.

    A list of tags with single bars is one tag, which RocketMQ's clients refuse to give a message;
    `TAGS` is the tag in RocketMQ's dialect only.

    Args:
        arguments: the table.
        names: those of the tags, the expression and its dialect.
    """
    tags, sql, dialect = (arguments.get(name) for name in names)
    if isinstance(tags, str):
        for tag in _or_nothing(lambda: parse_tags(tags)) or ():
            if "|" in tag:
                yield names[0], f"{quoted(tag)} is one tag; || stands between tags"
                break
    if isinstance(sql, str) and TAG_NAME in sql and dialect in (None, Dialect.JMS):
        words = _or_nothing(lambda: tokenize(sql, Dialect.JMS)) or ()
        if any(word.type == "NAME" and word == TAG_NAME for word in words):
            yield names[1], _TAG_IS_A_HEADER.format(names[0])


def _or_nothing(read: Callable[[], T]) -> T | None:
    """What is wrong with a filter is told by who compiles it."""
    try:
        return read()
    except FilterError:
        return None


def _tags(arguments: Mapping[str, Value]) -> Tags | None:
    text = _text(arguments, TAGS)
    if text is None:
        return None
    try:
        found = parse_tags(text)
    except FilterError as error:
        raise _refusal(TAGS, str(error)) from None
    return None if found is None else Tags([tag.encode() for tag in found])


def _selector(arguments: Mapping[str, Value]) -> Selector | None:
    text, name = _text(arguments, SQL), _text(arguments, DIALECT)
    dialect = DEFAULT
    if name is not None:
        if name not in list(Dialect):
            raise _refusal(DIALECT, f"unknown dialect '{name}': expected {' or '.join(Dialect)}")
        if text is None:
            raise _refusal(DIALECT, f"there is no {SQL} beside it")
        dialect = Dialect(name)
    if text is None:
        return None
    try:
        return Selector(program(text, dialect).code)
    except FilterError as error:
        raise _refusal(SQL, str(error)) from None


def class_of(arguments: Mapping[str, Value]) -> str | None:
    """Return the filter class that is asked for; raises PreconditionFailed if it is no text."""
    return _text(arguments, CLASS)


def _text(arguments: Mapping[str, Value], name: str) -> str | None:
    if name not in arguments:
        return None
    value = arguments[name]
    if isinstance(value, str):
        return value
    kind = type_name(value)
    raise _refusal(
        name, "it is not UTF-8" if kind == "longstr" else f"it must be a string, not {kind}"
    )


def _refusal(name: str, reason: str) -> PreconditionFailed:
    return PreconditionFailed(f"invalid arg '{name}': {reason}")
