import pytest

from leporid.amqp.errors import CommandInvalid, PreconditionFailed
from leporid.amqp.tables import Value
from leporid.broker.exchange.types import EXCHANGE_TYPES, is_exchange_type, make_router
from leporid.broker.exchange.types.delayed import DELAYED_MESSAGE, routed_as


@pytest.mark.parametrize(
    "exchange_type", ["direct", "fanout", "topic", "headers", "x-super-stream"]
)
def test_routes_as_any_other_type(exchange_type: str):
    router = make_router(DELAYED_MESSAGE, {"x-delayed-type": exchange_type}, int)
    assert type(router) is EXCHANGE_TYPES[exchange_type]


def test_other_types_do_not_read_the_argument():
    assert routed_as("topic", {"x-delayed-type": 5}) == "topic"


def test_itself_is_no_type_to_route_by():
    with pytest.raises(PreconditionFailed) as refused:
        make_router(DELAYED_MESSAGE, {"x-delayed-type": DELAYED_MESSAGE}, int)
    assert refused.value.text == (
        "PRECONDITION_FAILED - Invalid argument, 'x-delayed-message' can't be used for "
        "'x-delayed-type'"
    )


@pytest.mark.parametrize("arguments", [{}, {"x-delayed-type": 5}, {"x-delayed-type": None}])
def test_the_argument_is_needed(arguments: dict[str, Value]):
    with pytest.raises(PreconditionFailed) as refused:
        make_router(DELAYED_MESSAGE, arguments, int)
    assert refused.value.text == (
        "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"
    )


def test_it_names_a_type_that_there_is():
    with pytest.raises(CommandInvalid) as refused:
        make_router(DELAYED_MESSAGE, {"x-delayed-type": "x-nothing"}, int)
    assert "unknown exchange type 'x-nothing'" in refused.value.text


def test_an_exchange_may_be_declared_with_it():
    assert is_exchange_type(DELAYED_MESSAGE)
    assert is_exchange_type("topic")
    assert not is_exchange_type("x-nothing")
