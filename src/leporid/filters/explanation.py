"""Why an expression is true of a message, or not: each part with its value, for a person.

Must not know the command line. Invariant: every part of the expression that is no constant has a
line; one that was not evaluated says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from leporid.filters.checks import CONDITION, NULL, kind_of
from leporid.filters.dialects import Dialect
from leporid.filters.interpreter import Evaluation, Outcome, Step, said
from leporid.filters.messages import FilteredMessage
from leporid.filters.nodes import Condition, Literal, Node, parts_of

VALUE_CHARACTERS_MAX: Final = 30
NOT_REACHED: Final = "not reached"
TYPE_ERROR: Final = "type error"
_NEEDLESSLY_QUOTED: Final = re.compile(r'"[\w ]+"')


@dataclass(frozen=True, slots=True)
class Line:
    """One part.

    Attributes:
        depth: of the part in the expression.
        value: what it came to.
        text: of the part.
    """

    depth: int
    value: str
    text: str


class Explanation:
    """An expression over a message.

    Attributes:
        outcome: what it came to.
        lines: the whole expression first, then its parts, from left to right.
    """

    def __init__(self, text: str, tree: Node, dialect: Dialect, message: FilteredMessage) -> None:
        evaluation = Evaluation(tree, dialect, message)
        self.outcome = evaluation.outcome
        # By identity: parts that are equal stand at different places.
        self._steps: dict[int, Step] = {id(step.node): step for step in evaluation.steps}
        self._text = text
        self.lines = list(self._lines(tree, 0))

    def __str__(self) -> str:
        """The outcome, and a table of the parts."""
        width = max(len(line.value) for line in self.lines)
        table = [f"{line.value:{width}}  {'  ' * line.depth}{line.text}" for line in self.lines]
        return "\n".join([self.verdict(), "", *table, *self._note()])

    def _note(self) -> list[str]:
        """What is in double quotes without need, and not there, was probably meant as a text."""
        for line in self.lines:
            if line.value == NULL and _NEEDLESSLY_QUOTED.fullmatch(line.text):
                meant = f"a text is '{line.text[1:-1]}'"
                return ["", f"{line.text} is the header of that name, which is not there; {meant}"]
        return []

    def verdict(self) -> str:
        """The outcome in a few words."""
        if self.outcome is Outcome.MATCH:
            return "match"
        if self.outcome is Outcome.NO_MATCH:
            return f"no match: {self.lines[0].value}"
        return "no match, for a type error"

    def _lines(self, node: Node, depth: int) -> Iterator[Line]:
        start, end = node.span
        yield Line(depth, self._value(node), " ".join(self._text[start:end].split()))
        for part in self._shown(node):
            yield from self._lines(part, depth + 1)

    def _shown(self, node: Node) -> Iterator[Node]:
        """Parts with a line of their own: `a <> 1` is a NOT and a comparison, and has one."""
        for part in parts_of(node):
            if isinstance(part, Literal):
                continue
            if part.span != node.span:
                yield part
            elif not isinstance(node, Condition):
                yield from self._shown(part)
            elif self._value(part) != self._value(node):
                yield part

    def _value(self, node: Node) -> str:
        step = self._steps.get(id(node))
        if step is None:
            return TYPE_ERROR if self._failed_inside(node) else NOT_REACHED
        if step.bad_type or self._failed_inside(node):
            return TYPE_ERROR
        value = said(step.value)
        if step.value is None and kind_of(node) != CONDITION:
            value = NULL
        if len(value) > VALUE_CHARACTERS_MAX:
            value = value[: VALUE_CHARACTERS_MAX - 1] + "…"
        return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in value)

    def _failed_inside(self, node: Node) -> bool:
        """Whether the part that shares this one's line had no result."""
        for part in parts_of(node):
            if part.span == node.span and not isinstance(node, Condition):
                step = self._steps.get(id(part))
                return (step is not None and step.bad_type) or self._failed_inside(part)
        return False
