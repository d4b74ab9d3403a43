"""What a message must have for an expression to be true, if that can be told in one text.

`origin = 'JFK' AND dep_delay > 60` can only be true where `origin` is the text JFK: who has many
expressions finds by such an anchor those that are worth evaluating, in one look-up a name. Must not
know who keeps an index. Invariant: an anchor never excludes a message for which the expression is
true; where the name's value is no text, it says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from leporid.filters.checks import NAMES
from leporid.filters.messages import FilteredMessage
from leporid.filters.nodes import And, Comparison, In, Literal, Node, Or, Order


@dataclass(frozen=True, slots=True)
class Anchor:
    """A name, and the texts of which its value must be one, if it is a text or missing.

    Attributes:
        name: a header, a property, the routing key, the exchange or the tag.
        texts: in UTF-8; never none.
    """

    name: Node
    texts: frozenset[bytes]

    def excludes(self, message: FilteredMessage) -> bool:
        """Whether the expression is certainly not true of a message."""
        value = message.value_of(self.name)
        return (value is None or isinstance(value, bytes)) and value not in self.texts


def anchors_of(tree: Node) -> tuple[Anchor, ...]:
    """All that must hold for an expression to be true, as far as each can be told by a name."""
    match tree:
        case Comparison(Order.EQUAL, name, Literal(str() as text)) if isinstance(name, NAMES):
            return (Anchor(name, frozenset({text.encode()})),)
        case Comparison(Order.EQUAL, Literal(str() as text), name) if isinstance(name, NAMES):
            return (Anchor(name, frozenset({text.encode()})),)
        case In(name, items) if isinstance(name, NAMES):
            texts = [item.value.encode() for item in items if isinstance(item.value, str)]
            # A number in the list is of no use to a text; but it may make another value equal.
            return (Anchor(name, frozenset(texts)),) if texts else ()
        case And(left, right):
            return anchors_of(left) + anchors_of(right)
        case Or(left, right):
            others = _shortest(anchors_of(right))
            return tuple(
                Anchor(name, texts | others[name])
                for name, texts in _shortest(anchors_of(left)).items()
                if name in others
            )
    return ()


def _shortest(anchors: tuple[Anchor, ...]) -> dict[Node, frozenset[bytes]]:
    """Of each name the anchor with the fewest texts."""
    ordered = sorted(anchors, key=lambda one: -len(one.texts))
    return {one.name: one.texts for one in ordered}
