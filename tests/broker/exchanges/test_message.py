import pytest

from leporid.amqp.errors import SyntaxFault
from leporid.amqp.properties import Properties, encode_properties
from leporid.broker.exchanges import Message


def test_each_key_counts_once():
    assert Message(["b", "a", "b"]).keys == ("b", "a")


def test_properties_are_decoded_when_somebody_asks():
    message = Message(["k"], encode_properties(Properties(headers={"a": 1}, message_id="m")))
    assert message.headers == {"a": 1}
    assert message.properties.message_id == "m"
    assert message.properties is message.properties
    nonsense = Message(["k"], b"\xff\xff")
    with pytest.raises(SyntaxFault):
        _ = nonsense.properties


def test_a_message_without_properties_has_no_headers():
    assert Message(["k"]).headers == {}
    assert Message(["k"], encode_properties(Properties(message_id="m"))).headers == {}


def test_it_says_where_it_goes():
    assert repr(Message(["a", "b"])) == "<Message ('a', 'b')>"
