import pytest

from leporid.amqp.errors import SyntaxFault
from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value
from leporid.broker.exchange.types import RoutedMessage
from leporid.engine.selectors.selector import Selector
from leporid.filters.compiler import program


def test_each_key_counts_once():
    assert RoutedMessage(["b", "a", "b"]).keys == ("b", "a")


def test_headers_are_decoded_one_by_one():
    message = RoutedMessage(["k"], encode_properties(Properties(headers={"a": 1}, message_id="m")))
    assert dict(message.headers()) == {"a": 1}
    nonsense = RoutedMessage(["k"], encode_properties(Properties(headers={"a": 1, "b": 2}))[:-1])
    with pytest.raises(SyntaxFault):
        list(nonsense.headers())


def test_a_message_without_properties_has_no_headers():
    assert not list(RoutedMessage(["k"]).headers())
    without = RoutedMessage(["k"], encode_properties(Properties(message_id="m")))
    assert not list(without.headers())


def test_a_property_is_found_without_the_headers():
    raw = encode_properties(Properties(headers={"a": 1}, message_id="m"))
    message = RoutedMessage(["k"], raw)
    assert message.encoded_property("message_id") == b"\1m"
    assert message.encoded_property("timestamp") is None
    assert RoutedMessage(["k"]).encoded_property("message_id") is None


def test_one_header_is_found_without_the_others():
    headers: dict[str, Value] = {"a": 1, "é": [True, {"b": "c"}], "v": None, "x" * 255: b"\xff"}
    message = RoutedMessage(["k"], encode_properties(Properties(headers=headers, message_id="m")))
    for name in [*headers, "none", "x" * 256, "x" * 300, ""]:
        assert message.header(name) == headers.get(name)
    assert RoutedMessage(["k"]).header("a") is None
    assert RoutedMessage(["k"], encode_properties(Properties(message_id="m"))).header("a") is None


def test_it_says_where_it_goes():
    assert repr(RoutedMessage(["a", "b"])) == "<Message ('a', 'b')>"


def test_filters_are_asked_with_the_names_it_was_published_with():
    message = RoutedMessage(["k", "copy"], encode_properties(Properties(headers={"n": 1})), "x")
    for text, passes in (
        ("n = 1 AND exchange = 'x' AND routing_key = 'k'", True),
        ("n = 2", False),
        ("n > 'a'", False),
    ):
        assert message.passes(Selector(program(text).code)) is passes
    assert message.outcomes == [1, 0, -1]


def test_without_properties_it_may_stand_for_itself_or_for_all_with_its_keys():
    assert RoutedMessage(["k"]).known
    assert RoutedMessage(["k"]).passes(Selector(program("n IS NULL").code))
    assert not RoutedMessage(["k"], None).known
