"""What a user may do: patterns over names, three rights per virtual host.

Responsible for compiling permission patterns and for asking them. Must not know how a user
proved who they are, nor what an exchange or queue is.

Invariant: asking costs time linear in the name, whatever the pattern. The patterns are run by
RE2, which has no backtracking; what it leaves out (look-around, back-references, possessive
repeats) is refused when the pattern is written down, never when it is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

import re2  # type: ignore[import-untyped, unused-ignore]

V = TypeVar("V")
Right = Literal["configure", "write", "read"]
Kind = Literal["exchange", "queue"]

RIGHTS: Final[tuple[Right, ...]] = ("configure", "write", "read")

# An alternation of a hundred names.
PATTERN_BYTES_MAX = 4096
# Of the program that RE2 makes of it; RE2's own bound. A pattern with counted repetitions that
# needs all of it takes a tenth of a second for one name: for those who give patterns to others.
PATTERN_MEMORY_BYTES_MAX = 8 * 1024 * 1024
# Found in every name, line breaks included, since it is looked for anywhere.
FOUND_IN_ALL: Final = ".*"

# The name under which permissions know the default exchange, whose own name is empty.
DEFAULT_EXCHANGE_NAME = "amq.default"


class PatternError(ValueError):
    """A permission pattern that cannot be used; the message says why."""


class Pattern:
    """One permission pattern with RabbitMQ's meaning.

    It is looked for anywhere in the name, so `orders` also matches `my-orders-2`; anchor it with
    `^` and `$` to mean the whole name. The empty pattern matches only the empty name, which makes
    it the way to write "nothing".

    Args:
        text: in RE2's syntax.
        bytes_max: of the text.
        memory_bytes_max: of what RE2 makes of it, by which the time grows that a name takes.

    Raises:
        PatternError: it is too large, or no pattern.
    """

    __slots__ = ("_compiled", "_is_everything", "text")

    def __init__(
        self,
        text: str,
        *,
        bytes_max: int = PATTERN_BYTES_MAX,
        memory_bytes_max: int = PATTERN_MEMORY_BYTES_MAX,
    ) -> None:
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > bytes_max:
            raise PatternError(f"is {size} bytes long; at most {bytes_max} are allowed")
        options = re2.Options()
        options.log_errors = False
        options.max_mem = memory_bytes_max
        self.text = text
        # What most users have, and every declaration and binding asks for.
        self._is_everything = text == FOUND_IN_ALL
        try:
            self._compiled = re2.compile(text or "^$", options=options)
        except (re2.error, UnicodeEncodeError) as error:
            reason = error.args[0] if error.args else error
            if isinstance(reason, bytes):
                reason = reason.decode("utf-8", "replace")
            raise PatternError(
                f"is not a pattern RE2 accepts ({reason}); "
                "look-around and back-references are not available"
            ) from None

    def matches(self, name: str) -> bool:
        """Say whether the pattern occurs in `name`."""
        # A name that is not UTF-8 matches nothing; ASCII always is.
        if self._is_everything and name.isascii():
            return True
        return self._compiled.search(name) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"


@dataclass(frozen=True, slots=True)
class Permissions:
    """The three rights of one user in one virtual host."""

    configure: Pattern
    write: Pattern
    read: Pattern

    @classmethod
    def of(cls, configure: str = "", write: str = "", read: str = "") -> Permissions:
        """Compile the three patterns; what is left out is the empty pattern: nothing."""
        return cls(Pattern(configure), Pattern(write), Pattern(read))

    def allow(self, right: Right, kind: Kind, name: str) -> bool:
        """Say whether `right` on the exchange or queue called `name` is granted."""
        if kind == "exchange" and not name:
            name = DEFAULT_EXCHANGE_NAME
        if right == "configure":
            return self.configure.matches(name)
        return (self.write if right == "write" else self.read).matches(name)


class Unlisted(Mapping[str, V]):
    """What users may do by name, where it is made when it is asked for: nothing is listed."""

    # Not by what is listed.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


EVERYTHING = Permissions.of(".*", ".*", ".*")
NO_PERMISSIONS: Mapping[str, Permissions] = {}
