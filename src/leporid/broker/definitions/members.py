"""The members of one definition in a document: taken as they should be, or refused by a sentence.

Responsible for the kinds of values. Must not know what a definition is of. Invariant: what is
returned has the type that was asked for, and a text is Unicode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from leporid.amqp.json_values import table_of
from leporid.amqp.tables import Value

NAME_BYTES_MAX: Final = 255
"""Of names of anything: as AMQP's short strings."""
TAGS_MAX: Final = 64

Item = Mapping[str, Any]

_MISSING: Final = object()


class WrongDefinition(ValueError):
    """A definition cannot be used; the message says why."""


def text_in(item: Item, key: str, default: Any = _MISSING, bytes_max: int | None = None) -> str:
    """Return a text; raises WrongDefinition if it is none, is missing, or has more bytes."""
    value = item.get(key, default)
    if value is _MISSING:
        raise WrongDefinition(f"{key} is missing")
    if not isinstance(value, str):
        raise WrongDefinition(f"{key} should be a string")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise WrongDefinition(f"{key} should be Unicode text") from None
    if bytes_max is not None and size > bytes_max:
        raise WrongDefinition(f"{key} has {size} bytes; at most {bytes_max} are allowed")
    return value


def name_in(item: Item, key: str = "name", *, may_be_empty: bool = False) -> str:
    """Return a name; raises WrongDefinition."""
    name = text_in(item, key, bytes_max=NAME_BYTES_MAX)
    if not name and not may_be_empty:
        raise WrongDefinition(f"{key} is empty")
    return name


def flag_in(item: Item, key: str, default: bool | None = None) -> bool:
    """Return true or false; raises WrongDefinition."""
    value = item.get(key, default)
    if not isinstance(value, bool):
        raise WrongDefinition(f"{key} should be true or false")
    return value


def table_in(item: Item, key: str = "arguments") -> dict[str, Value]:
    """Return a table of AMQP's; none is an empty one. Raises WrongDefinition."""
    try:
        return table_of(item.get(key))
    except ValueError as error:
        raise WrongDefinition(f"{key}: {error}") from None


def object_in(item: Item, key: str) -> dict[str, Any]:
    """Return an object; none is an empty one, and so is an empty list, as RabbitMQ has it."""
    value = item.get(key)
    if value is None or value == []:
        return {}
    if not isinstance(value, dict):
        raise WrongDefinition(f"{key} should be an object")
    return value


def tags_in(item: Item, key: str = "tags") -> list[str]:
    """Return tags: of a list, or of a text with commas; raises WrongDefinition."""
    value = item.get(key)
    given = value.split(",") if isinstance(value, str) else (value or [])
    if not isinstance(given, list) or not all(isinstance(tag, str) for tag in given):
        raise WrongDefinition(f"{key} should be a list, or a string with commas")
    found = [part.strip() for each in given for part in each.split(",")]
    found = list(dict.fromkeys(filter(None, found)))
    if len(found) > TAGS_MAX:
        raise WrongDefinition(f"{len(found)} {key}; at most {TAGS_MAX} are allowed")
    return [text_in({key: tag}, key, bytes_max=NAME_BYTES_MAX) for tag in found]
