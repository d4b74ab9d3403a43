import pytest
from tests.broker.exchange.types.bindings import binding

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Int32, Int64L, LongString, Value
from leporid.broker.exchange.types import Binding
from leporid.broker.exchange.types.direct import DirectRouter
from leporid.broker.exchange.types.fanout import FanoutRouter
from leporid.broker.exchange.types.topic import TopicRouter


def test_a_binding_is_told_by_source_destination_kind_key_and_arguments():
    same = Binding("x", "d", "queue", "k", {"a": "1"})
    assert same == Binding("x", "d", "queue", "k", {"a": "1"})
    assert hash(same) == hash(Binding("x", "d", "queue", "k", {"a": "1"}))
    others = [
        Binding("y", "d", "queue", "k", {"a": "1"}),
        Binding("x", "e", "queue", "k", {"a": "1"}),
        Binding("x", "d", "exchange", "k", {"a": "1"}),
        Binding("x", "d", "queue", "l", {"a": "1"}),
        Binding("x", "d", "queue", "k", {"a": "2"}),
        Binding("x", "d", "queue", "k", {}),
    ]
    assert same not in others
    assert len(set(others)) == len(others)


def test_a_binding_cannot_be_changed():
    with pytest.raises(AttributeError):
        binding().key = "other"  # type: ignore[misc]


# RabbitMQ 3.10.8: bound both ways, unbound the first way; was the queue still bound?
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, True, id="order does not count"),
        pytest.param({"a": Int32(1)}, {"a": 1}, False, id="integer types count"),
        pytest.param({"a": 1}, {"a": Int64L(1)}, True, id="l and L are one type"),
        pytest.param({"a": Int32(1)}, {"a": 1.0}, False, id="1 is not 1.0"),
        pytest.param({"a": "a"}, {"a": b"a"}, False, id="text is not octets"),
        pytest.param({"a": 0.0}, {"a": -0.0}, True, id="zero has no sign"),
        pytest.param(
            {"a": {"p": 1, "q": 2}}, {"a": {"q": 2, "p": 1}}, False, id="order counts further in"
        ),
        pytest.param({"a": True}, {"a": 1}, False, id="true is not 1"),
        pytest.param({"a": LongString(b"\xff")}, {"a": b"\xff"}, False, id="nor if not UTF-8"),
        pytest.param({"a": [1, [None]]}, {"a": [1, [None]]}, True, id="arrays"),
    ],
)
def test_arguments_are_the_same_as_in_rabbitmq(
    one: dict[str, Value], other: dict[str, Value], same: bool
):
    assert (binding("k", one) == binding("k", other)) is same


def test_only_an_exchange_with_strict_keys_checks_keys():
    TopicRouter().validate("#.# anything", {})
    TopicRouter().check_published("#.# anything")
    strict = TopicRouter(strict_keys=True)
    strict.validate("a.*.b.#", {})
    strict.check_published("a.b")
    with pytest.raises(PreconditionFailed, match=r"no '#\.#' side by side"):
        strict.validate("#.#", {})
    with pytest.raises(PreconditionFailed, match="no wildcards"):
        strict.check_published("a.*")


def test_strict_binding_keys_are_patterns_on_topic_exchanges_only():
    with pytest.raises(PreconditionFailed, match="no wildcards"):
        DirectRouter(strict_keys=True).validate("a.*", {})
    with pytest.raises(PreconditionFailed, match="no wildcards"):
        FanoutRouter(strict_keys=True).validate("a.*", {})
