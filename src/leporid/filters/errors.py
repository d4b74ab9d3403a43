"""What is wrong with an expression, and where.

Must not know who asked. Invariant: whatever an expression is made of, `FilterError` is all that
reading it raises, and `position` lies in the text or just behind it.
"""

from __future__ import annotations

QUOTED_CHARACTERS_MAX = 24
"""Of what the expression says, in a message: a reply text has room for 255 bytes."""

SHOWN_CHARACTERS_MAX = 120
"""Of the line at fault: where a terminal breaks it, the caret points at nothing."""


class FilterError(ValueError):
    """An expression that is not one.

    Attributes:
        reason: what is wrong, and what to write instead.
        text: the whole expression.
        position: of the character at fault, from 0; the length of the text at its end.
        line: that character's line, from 1.
        column: its place in that line, from 1.
    """

    def __init__(self, reason: str, text: str, position: int) -> None:
        self.reason = reason
        self.text = text
        self.position = position
        self.line = text.count("\n", 0, position) + 1
        self.column = position - (text.rfind("\n", 0, position) + 1) + 1
        where = f"character {self.column}"
        if "\n" in text:
            where = f"line {self.line}, {where}"
        super().__init__(f"{where}: {reason}")

    def pointer(self) -> str:
        """Returns the line at fault, or what is around, and under it a caret at the character."""
        line, column = self.text.split("\n")[self.line - 1], self.column - 1
        first = max(0, column - SHOWN_CHARACTERS_MAX // 2 + 1)
        if len(line) < SHOWN_CHARACTERS_MAX:
            first = 0
        shown = "".join(one if one.isprintable() else " " for one in line[first:])
        if first:
            shown = "…" + shown[1:]
        if len(shown) > SHOWN_CHARACTERS_MAX:
            shown = shown[: SHOWN_CHARACTERS_MAX - 1] + "…"
        return f"{shown}\n{' ' * (column - first)}^"


def quoted(part: str) -> str:
    """A part of an expression as a message shows it: printable, and not long."""
    if len(part) > QUOTED_CHARACTERS_MAX:
        part = part[: QUOTED_CHARACTERS_MAX - 1] + "…"
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in part)
