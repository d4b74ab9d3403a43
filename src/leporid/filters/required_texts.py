"""Required texts: by a name, the texts of which its value must be one for an expression to be true.

`origin = 'JFK' AND dep_delay > 60` requires the text JFK of `origin`. Must not know what the texts
are used for.

`engine.selectors.conjuncts` finds required values, too, and neither can serve the other. An index
wants values of any kind and of any names, prefixes too, of which a message must have one: of AND it
takes the cheaper operand, and OR may join different names. Who asks for the texts of one name, as
of tags, wants all that AND requires of it, and nothing of other names helps. An index has compiled
programs; this has a tree, as `filters/` does not know the engine.

Invariant: if the value of a name is a text or missing, and is not
among the required texts, the expression is not true; other values are not ruled out.
"""

from __future__ import annotations

from dataclasses import dataclass

from leporid.filters.checks import NAMES
from leporid.filters.nodes import And, Comparison, In, Literal, Node, Or, Order


@dataclass(frozen=True, slots=True)
class RequiredTexts:
    """A name, and the texts of which its value must be one, if it is a text or missing.

    Attributes:
        name: a header, a property, the routing key, the exchange or the tag.
        texts: in UTF-8; never none.
    """

    name: Node
    texts: frozenset[bytes]


def required_texts(tree: Node) -> tuple[RequiredTexts, ...]:
    """All that must hold for an expression to be true, as far as each can be told by a name."""
    match tree:
        case Comparison(Order.EQUAL, name, Literal(str() as text)) if isinstance(name, NAMES):
            return (RequiredTexts(name, frozenset({text.encode()})),)
        case Comparison(Order.EQUAL, Literal(str() as text), name) if isinstance(name, NAMES):
            return (RequiredTexts(name, frozenset({text.encode()})),)
        case In(name, items) if isinstance(name, NAMES):
            texts = [item.value.encode() for item in items if isinstance(item.value, str)]
            # A number in the list is of no use to a text; but it may make another value equal.
            return (RequiredTexts(name, frozenset(texts)),) if texts else ()
        case And(left, right):
            return required_texts(left) + required_texts(right)
        case Or(left, right):
            others = _shortest(required_texts(right))
            return tuple(
                RequiredTexts(name, texts | others[name])
                for name, texts in _shortest(required_texts(left)).items()
                if name in others
            )
    return ()


def _shortest(found: tuple[RequiredTexts, ...]) -> dict[Node, frozenset[bytes]]:
    """Of each name the fewest texts."""
    ordered = sorted(found, key=lambda one: -len(one.texts))
    return {one.name: one.texts for one in ordered}
