from tests.broker.exchange.types.bindings import binding, message, queues

from leporid.broker.exchange.types.fanout import FanoutRouter


def test_matches_every_binding_whatever_the_key():
    router = FanoutRouter()
    assert queues(router, "any") == []
    router.add(binding("a", queue="one"))
    router.add(binding("b", queue="two"))
    assert queues(router, "c") == queues(router, "") == ["one", "two"]


def test_a_removed_binding_is_not_matched():
    router = FanoutRouter()
    router.add(binding("a", queue="one"))
    router.add(binding("a", queue="two"))
    router.remove(binding("a", queue="one"))
    assert queues(router) == ["two"]


def test_a_binding_concerns_every_key():
    assert FanoutRouter().only_key("a") is None


def test_a_binding_is_met_once_whatever_the_keys():
    router = FanoutRouter()
    one = binding("a")
    router.add(one)
    assert list(router.match(message("b", "a"))) == [one]
    assert not router.per_message


# RabbitMQ 3.10.8 takes an x-match that only a headers exchange would refuse.
def test_takes_any_arguments():
    FanoutRouter().validate("", {"x-match": "foo"})
