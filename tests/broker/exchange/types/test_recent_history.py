import pytest
from tests.broker.exchange.types.bindings import binding, message, queues

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Int8, Int16, Int32, UInt16, Value
from leporid.broker.exchange.types import RoutedMessage, make_router
from leporid.broker.exchange.types.recent_history import RecentHistoryRouter


def made(length: Value) -> int:
    return make_router("x-recent-history", {"x-recent-history-length": length}, int).history_length


def test_every_binding_is_met_whatever_the_key():
    router = RecentHistoryRouter()
    for key, name in (("a", "one"), ("b", "two")):
        router.add(binding(key, queue=name))
    assert queues(router, "c") == ["one", "two"]


def test_twenty_messages_are_kept_unless_it_says_how_many():
    assert make_router("x-recent-history", {}, int).history_length == 20
    assert [made(each) for each in (Int8(1), Int16(300), Int32(5), 10_000)] == [1, 300, 5, 10_000]


# In RabbitMQ's words. It takes no unsigned numbers, and has no limit.
@pytest.mark.parametrize(
    ("length", "text"),
    [
        (0, "Invalid argument 0, 'x-recent-history-length' must be a positive integer"),
        (Int32(-1), "Invalid argument -1, 'x-recent-history-length' must be a positive integer"),
        (UInt16(5), "Invalid argument 5, 'x-recent-history-length' must be a positive integer"),
        ("5", "Invalid argument <<\"5\">>, 'x-recent-history-length' must be a positive integer"),
        (True, "Invalid argument true, 'x-recent-history-length' must be a positive integer"),
        (1.5, "Invalid argument 1.5, 'x-recent-history-length' must be a positive integer"),
        (
            None,
            "Invalid argument undefined, 'x-recent-history-length' must be a positive integer",
        ),
        (10_001, "Invalid argument 10001, 'x-recent-history-length' must not exceed 10000"),
    ],
)
def test_a_length_is_a_number_above_zero(length: Value, text: str):
    with pytest.raises(PreconditionFailed) as refused:
        made(length)
    assert refused.value.text == f"PRECONDITION_FAILED - {text}"


@pytest.mark.parametrize(
    ("headers", "kept"),
    [
        ({}, True),
        ({"other": True}, True),
        ({"x-recent-history-no-store": True}, False),
        ({"x-recent-history-no-store": False}, True),
        ({"x-recent-history-no-store": 1}, True),
        ({"x-recent-history-no-store": "true"}, True),
        ({"said": "x-recent-history-no-store"}, True),
    ],
)
def test_a_message_may_say_that_it_is_not_to_be_kept(headers: dict[str, Value], kept: bool):
    assert RecentHistoryRouter().keeps(message("k", headers=headers)) is kept


def test_other_messages_are_not_decoded():
    assert RecentHistoryRouter().keeps(RoutedMessage(["k"], b"nonsense"))


def test_no_route_may_be_kept_since_each_message_counts():
    assert RecentHistoryRouter.per_message
