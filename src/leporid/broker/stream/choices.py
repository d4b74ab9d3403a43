"""What a consumer of a stream asks for: filters, and the tags without which it wants nothing.

Responsible for `x-stream-filter` and `x-stream-match-unfiltered`, and for telling from all filters
which tags a batch of the stream must have for one of its messages to pass. Must not know streams.
Invariant: every message that passes has one of the tags of each group, if its tag is a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.filter.filter_arguments import DIALECT, SQL, TAGS, check_names, filter_of
from leporid.broker.settings.values import MATCH_UNFILTERED, STREAM_FILTER, Arguments, plain
from leporid.engine.selectors.filter import Conjunction, Filter
from leporid.engine.selectors.selector import Selector
from leporid.engine.selectors.tags import Tags
from leporid.engine.stream.choice import Choice
from leporid.filters.compiler import compile_tree, program
from leporid.filters.dialects import DEFAULT, Dialect
from leporid.filters.limits import TAGS_MAX
from leporid.filters.messages import TAG_HEADERS
from leporid.filters.nodes import Header, In, IsNull, Literal, Node, Or, Tag
from leporid.filters.parser import parse
from leporid.filters.required_texts import required_texts
from leporid.filters.tags import parse_tags

_FILTER_VALUE: Final = Header(TAG_HEADERS[1])
_TAG_NAMES: Final = (Tag(), *map(Header, TAG_HEADERS))


def choice_of(arguments: Arguments, known: Callable[[str], object] | None = None) -> Choice | None:
    """Return what the arguments of a consumer ask for; None if it is every message.

    A filter class is not part of it, as with `filter_of`, which says what `known` is.

    Raises:
        PreconditionFailed: one of them is wrong; the text says what, and at which character.
        NotFound: the filter class is not registered.
    """
    check_names(arguments)
    found = filter_of(arguments, known)
    values = _values(arguments)
    groups: list[Iterable[bytes]] = []
    if found is not None:
        tags, sql, dialect = (_text(arguments, name) for name in (TAGS, SQL, DIALECT))
        groups = _groups(_octets(tags), sql, dialect)
    if values is None:
        return None if found is None else Choice(found.engine, groups)
    unfiltered = arguments.get(MATCH_UNFILTERED) is True
    filters = _value_filter(values, unfiltered)
    octets = [value.encode() for value in values]
    if not unfiltered:
        groups.append(octets)
    return Choice(
        filters if found is None else Conjunction(filters, found.engine),
        groups,
        unfiltered=octets if unfiltered else None,
    )


def choice_for(tags: str | None, sql: str | None, dialect: Dialect = DEFAULT) -> Choice | None:
    """Return the same of a list of tags and an expression, each of which may be missing.

    Raises:
        FilterError: one of them is none.
    """
    some = _octets(tags)
    parts: list[Filter] = []
    if some is not None:
        parts.append(Tags(some))
    if sql is not None:
        parts.append(Selector(program(sql, dialect).code))
    if not parts:
        return None
    return Choice(parts[0] if len(parts) == 1 else Conjunction(*parts), _groups(some, sql, dialect))


def _octets(tags: str | None) -> list[bytes] | None:
    """Return the tags of a list, encoded; None if every message will do."""
    some = None if tags is None else parse_tags(tags)
    return None if some is None else [tag.encode() for tag in some]


def _groups(
    tags: list[bytes] | None, sql: str | None, dialect: str | None
) -> list[Iterable[bytes]]:
    """Return lists of tags, of each of which a message must have one; all was checked before."""
    groups: list[Iterable[bytes]] = [] if tags is None else [tags]
    if sql is not None:
        tree = parse(sql, Dialect(dialect or DEFAULT))
        groups += [one.texts for one in required_texts(tree) if one.name in _TAG_NAMES]
    return groups


def _text(arguments: Arguments, name: str) -> str | None:
    return plain(arguments[name]) if name in arguments else None


def _values(arguments: Arguments) -> list[str] | None:
    """Return the texts of x-stream-filter, whose types were checked before."""
    if STREAM_FILTER not in arguments:
        return None
    given = arguments[STREAM_FILTER]
    several = given if isinstance(given, list) else [given]
    values = list(dict.fromkeys(plain(value) for value in several))
    if len(values) > TAGS_MAX:
        raise PreconditionFailed(
            f"invalid arg '{STREAM_FILTER}': it has {len(values)} values; at most {TAGS_MAX}"
        )
    return values


def _value_filter(values: list[str], unfiltered: bool) -> Filter:
    """Return what lets messages pass with one of these values; without any, if it says so."""
    tree: Node = In(_FILTER_VALUE, tuple(Literal(value) for value in values))
    if unfiltered:
        tree = Or(tree, IsNull(_FILTER_VALUE))
    return Selector(compile_tree(tree, DEFAULT).code)
