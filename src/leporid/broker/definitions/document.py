"""A document of definitions, read out of its bytes: RabbitMQ's JSON, one definition at a time.

Responsible for the form: an object whose members are lists of objects, or facts about the document.
Must not know what a definition means. Invariants: a step decodes one definition, however many there
are, so that no turn of the loop is long; a document is refused before it takes more memory than its
limits say, which are on definitions, values and characters.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from leporid.amqp.json_values import finite, no_constant

if TYPE_CHECKING:
    from leporid.broker.registry import StepsTo

BYTES_MAX: Final = 64 * 1024 * 1024
"""Of a document: half a million queues with short names."""
BYTES: Final = "definitions_bytes"
ITEMS_MAX: Final = 500_000
ITEMS: Final = "definitions_items"
VALUES_MAX: Final = 4_000_000
"""Members and elements in all definitions, about: 300 MB in memory, at eight for each of them."""
VALUES: Final = "definitions_values"
ITEM_CHARACTERS_MAX: Final = 128 * 1024
"""Of one definition, which is decoded in one piece: a millisecond."""
ITEM_CHARACTERS: Final = "definitions_item_characters"

NOUNS: Final = (
    "vhosts",
    "users",
    "permissions",
    "topic_permissions",
    "parameters",
    "global_parameters",
    "policies",
    "exchanges",
    "queues",
    "bindings",
)
"""The lists that there are, in an order in which each definition finds what it needs."""

_WINDOW_BYTES: Final = 64 * 1024
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_BOM: Final = "\ufeff"


class DocumentError(ValueError):
    """The bytes are no document of definitions; the message says what is wrong, and where."""


class DocumentTooLarge(DocumentError):
    """A document is larger than a limit allows.

    Attributes:
        limit: its name.
        value: its value.
    """

    def __init__(self, reason: str, limit: str, value: int) -> None:
        super().__init__(f"{reason} ({limit})")
        self.limit = limit
        self.value = value


@dataclass(slots=True)
class Document:
    """What stands in a document.

    Attributes:
        items: the definitions of each noun, in order.
        facts: the other members, such as the version of RabbitMQ that wrote it.
    """

    items: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


def reading(data: bytes | bytearray | memoryview) -> StepsTo[Document]:
    """Read a document, in steps.

    Raises:
        DocumentError: it is none.
        DocumentTooLarge: it is above a limit.
    """
    if len(data) > BYTES_MAX:
        raise DocumentTooLarge(f"the document has more than {BYTES_MAX} bytes", BYTES, BYTES_MAX)
    text, document = _Text(data), Document()
    if not text.peek():
        return document  # as RabbitMQ has it: no body defines nothing
    more = text.begins("{", "}")
    while more:
        name = text.value()
        if not isinstance(name, str):
            raise text.error("a member's name was expected")
        text.take(":")
        if name in NOUNS:
            yield from _reading_list(text, name, document.items.setdefault(name, []))
        else:
            document.facts[name] = text.value()
        yield None
        more = text.goes_on(",", "}")
    if text.peek():
        raise text.error("something follows the document")
    return document


def _reading_list(text: _Text, noun: str, into: list[dict[str, Any]]) -> StepsTo[None]:
    if text.peek() != "[":
        raise text.error(f"{noun} is not a list")
    more = text.begins("[", "]")
    while more:
        item = text.value()
        if not isinstance(item, dict):
            raise text.error(f"{noun}[{len(into)}] is not an object")
        into.append(item)
        text.count_item()
        yield None
        more = text.goes_on(",", "]")


class _Text:
    """The characters of a document, of which a window is there."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = memoryview(data)
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._scan = json.JSONDecoder(parse_float=finite, parse_constant=no_constant).raw_decode
        self._read = 0
        self._passed = 0
        self._window = ""
        self._at = 0
        self._items = self._values = 0
        self._ended = False
        if self.peek() == _BOM:
            self._at += 1

    def error(self, reason: str) -> DocumentError:
        """Return an error that says where it is."""
        place = self._passed + self._at
        return DocumentError(f"the definitions are not such JSON: {reason}, at character {place}")

    def peek(self) -> str:
        """Return the next character that is no space; "" at the end."""
        while True:
            match = _SPACE.match(self._window, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._window):
                return self._window[self._at]
            if not self._fill():
                return ""

    def take(self, expected: str) -> None:
        """Pass over a character; raises DocumentError without it."""
        if self.peek() != expected:
            raise self.error(f"{expected!r} was expected")
        self._at += 1

    def begins(self, begin: str, end: str) -> bool:
        """Pass over a beginning, and over the end if that follows; whether it does not."""
        self.take(begin)
        if self.peek() != end:
            return True
        self._at += 1
        return False

    def goes_on(self, between: str, end: str) -> bool:
        """Pass over what is between two elements, or over the end; whether one follows."""
        found = self.peek()
        if found not in (between, end) or not found:
            raise self.error(f"{between!r} or {end!r} was expected")
        self._at += 1
        return found == between

    def value(self) -> Any:
        """Return the next value.

        Raises:
            DocumentError: there is none, or it is too large.
        """
        self.peek()
        while True:
            start = self._at
            try:
                value, end = self._scan(self._window, start)
            except RecursionError:
                raise self.error("it is too deep") from None
            except ValueError as error:
                if len(self._window) - start > ITEM_CHARACTERS_MAX:
                    raise self._too_long() from None
                if self._fill():
                    continue
                raise self.error(getattr(error, "msg", None) or str(error)) from None
            if end == len(self._window) and self._fill():
                continue  # a number may go on
            if end - start > ITEM_CHARACTERS_MAX:
                raise self._too_long()
            self._at = end
            self._count_values(start, end)
            return value

    def count_item(self) -> None:
        """There is one more definition; raises DocumentTooLarge if that is too many."""
        self._items += 1
        if self._items > ITEMS_MAX:
            reason = f"there are more than {ITEMS_MAX} definitions"
            raise DocumentTooLarge(reason, ITEMS, ITEMS_MAX)

    def _count_values(self, start: int, end: int) -> None:
        for separator in ",{[":
            self._values += self._window.count(separator, start, end)
        if self._values > VALUES_MAX:
            reason = f"the definitions have more than {VALUES_MAX} values"
            raise DocumentTooLarge(reason, VALUES, VALUES_MAX)

    def _too_long(self) -> DocumentError:
        return DocumentTooLarge(
            f"what begins at character {self._passed + self._at} is not JSON, or has more than "
            f"{ITEM_CHARACTERS_MAX} characters",
            ITEM_CHARACTERS,
            ITEM_CHARACTERS_MAX,
        )

    def _fill(self) -> bool:
        """Have more characters in the window, and none that were read; whether there were any."""
        if self._ended:
            return False
        piece = self._data[self._read : self._read + _WINDOW_BYTES]
        self._read += len(piece)
        self._ended = self._read >= len(self._data)
        try:
            more = self._decode(bytes(piece), self._ended)
        except UnicodeDecodeError:
            raise self.error("it is not UTF-8") from None
        self._passed += self._at
        self._window, self._at = self._window[self._at :] + more, 0
        return bool(more) or not self._ended
