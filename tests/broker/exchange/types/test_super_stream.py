from collections import Counter

import pytest
from tests.broker.exchange.types.bindings import binding, message, queues

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.exchange.types.super_stream import SEED, SuperStreamRouter, partition_of
from leporid.engine.routing.key_hashes import murmur3_32


def router_of(partitions: int) -> SuperStreamRouter:
    router = SuperStreamRouter()
    for number in range(partitions):
        router.add(binding(str(number), queue=f"s-{number}"))
    return router


def test_the_partitions_are_those_that_rabbitmqs_stream_clients_choose():
    router = router_of(3)
    # From the tests of its client in Java.
    expected = [1, 0, 1, 2, 0, 2, 0, 1, 0, 2]
    assert [queues(router, f"hello{number}") for number in range(1, 11)] == [
        [f"s-{partition}"] for partition in expected
    ]


def test_every_key_meets_one_partition_and_every_partition_some_keys():
    router = router_of(7)
    met = Counter(tuple(queues(router, f"key {number}")) for number in range(3_500))
    assert len(met) == 7
    assert min(met.values()) > 400


def test_without_the_binding_of_its_number_a_message_goes_nowhere():
    router = SuperStreamRouter()
    assert queues(router, "k") == []
    router.add(binding("5"))
    assert queues(router, "k") == []
    router.add(binding("0", queue="zero"))
    router.add(binding("1", queue="one"))
    assert {*queues(router, "hello1"), *queues(router, "hello2")} <= {"zero", "one"}


def test_of_two_bindings_with_one_number_the_older_counts():
    router = SuperStreamRouter()
    old, new, other = binding("0", queue="old"), binding("0", queue="new"), binding("1")
    for each in (old, new):
        router.add(each)
    keys = [f"k{number}" for number in range(50)]
    assert {tuple(queues(router, key)) for key in keys} == {("old",), ()}
    router.remove(old)
    assert {tuple(queues(router, key)) for key in keys} == {("new",)}
    router.add(other)
    router.remove(new)
    router.remove(other)
    assert queues(router, "k") == []


def test_the_key_of_a_binding_is_a_number():
    router = SuperStreamRouter()
    for key in ("0", "17", "-1", "+3"):
        router.validate(key, {})
    for key in ("", "a", "1.0", " 1", "1\n", "٣"):
        with pytest.raises(PreconditionFailed, match="The binding key must be an integer: <<"):
            router.validate(key, {})


def test_a_key_is_octets():
    assert partition_of("ü\udcff", 1 << 32) == murmur3_32(b"\xc3\xbc\xff", SEED)


def test_a_binding_concerns_all_keys():
    assert SuperStreamRouter().only_key("0") is None


def test_of_several_keys_each_meets_its_partition():
    router = router_of(3)
    met = [each.destination for each in router.match(message("hello1", "hello2", "hello3"))]
    assert met == ["s-1", "s-0"]


@pytest.mark.parametrize("partitions", [0, 1, 7, 400])
def test_there_is_a_key_for_each_partition_to_spread_messages_without_one(partitions):
    router = router_of(partitions)
    keys = router.spread_keys()
    assert sorted(partition_of(key, partitions) for key in keys) == list(range(partitions))
    assert router.spread_keys() == keys
    router.add(binding(str(partitions), queue="more"))
    assert len(router.spread_keys()) == partitions + 1
