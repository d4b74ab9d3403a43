"""Expressions of text into trees.

Must not know what becomes of a tree. Invariant: any text whatsoever gives a tree or a
`FilterError`, in time proportional to its length.
"""

from __future__ import annotations

from leporid.filters.building import Builder
from leporid.filters.dialects import DEFAULT, Dialect
from leporid.filters.grammar import parse_tokens
from leporid.filters.nodes import Node
from leporid.filters.tokens import tokenize


def parse(text: str, dialect: Dialect = DEFAULT) -> Node:
    """Read an expression, which is a condition.

    Raises:
        FilterError: it is none; it says what is wrong with it, and where.
    """
    tree = parse_tokens(tokenize(text, dialect), text, dialect)
    return Builder(text, dialect).build(tree)


def prepare() -> None:
    """Make what expressions are read with: some 40 ms, which no peer shall wait for later."""
    for dialect in Dialect:
        parse("TRUE", dialect)
