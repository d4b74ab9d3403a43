"""Compiled expressions come to what the naive interpreter says, on whatever message."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.filters.trees import expressions, messages

from leporid.amqp.properties import encode_properties
from leporid.engine.selector import Selector
from leporid.filters.compiler import compile_tree
from leporid.filters.interpreter import evaluate
from leporid.filters.messages import Message


def outcome(selector: Selector, message: Message) -> int:
    encoded = encode_properties(message.properties)
    return selector.outcome(message.exchange, message.routing_key, encoded)


@settings(deadline=None, max_examples=400)
@given(expressions, st.lists(messages, min_size=1, max_size=8))
def test_a_program_comes_to_what_the_interpreter_says(expression, some):
    dialect, tree = expression
    selector = Selector(compile_tree(tree, dialect).code)
    for message in some:
        assert outcome(selector, message) == evaluate(tree, dialect, message).value
