import itertools
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.exchange.types.bindings import binding, message, queues

from leporid.broker.exchange.types import Binding
from leporid.broker.exchange.types.modulus_hash import ModulusHashRouter
from leporid.broker.exchange.types.phash2 import phash2_of_binaries
from leporid.broker.registry import finished

KEYS = [str(number) for number in range(1, 11)]
# Of these keys as Erlang/OTP 25 has it.
HASHES = (
    *(99340228, 21102361, 8856950, 19612710, 21097639),
    *(127637441, 122241120, 124216864, 13422628, 121098920),
)


def router_of(*names: str) -> ModulusHashRouter:
    router = ModulusHashRouter()
    for name in names:
        router.add(binding(queue=name))
    return router


def test_a_key_goes_where_rabbitmq_sends_it():
    router = router_of("c", "a", "b")
    assert [queues(router, key) for key in KEYS] == [["abc"[each % 3]] for each in HASHES]


def test_without_bindings_a_message_goes_nowhere():
    router = ModulusHashRouter()
    assert queues(router, "k") == []
    only = binding()
    router.add(only)
    assert queues(router, "k") == ["q"]
    router.remove(only)
    assert queues(router, "k") == []


@given(names=st.permutations("abcdefg"), gone=st.sets(st.sampled_from("abcdefg")))
def test_neither_order_nor_what_was_there_before_matters(names: list[str], gone: set[str]):
    router = router_of(*names)
    for name in gone:
        router.remove(binding(queue=name))
    kept = router_of(*(name for name in "gfedcba" if name not in gone))
    assert [queues(router, key) for key in KEYS] == [queues(kept, key) for key in KEYS]


def test_exchanges_come_before_queues():
    router = router_of("a")
    below = Binding("x", "z", "exchange", "", {})
    router.add(below)
    met = [next(iter(router.match(message(key)))) for key in KEYS]
    assert [each.destination for each in met] == ["za"[each % 2] for each in HASHES]


def test_what_is_bound_twice_counts_twice():
    router = ModulusHashRouter()
    twice = [binding("1", queue="a"), binding("2", queue="a"), binding(queue="b")]
    for each in twice:
        router.add(each)
    counted = Counter(queues(router, f"key {number}")[0] for number in range(3_000))
    assert 1_850 < counted["a"] < 2_150
    router.remove(twice[1])
    router.remove(twice[0])
    assert queues(router, "k") == ["b"]


def test_several_keys_are_hashed_together():
    router = router_of("a", "b", "c")
    (met,) = router.match(message("a", "b"))
    assert met.destination == "abc"[finished(phash2_of_binaries([b"a", b"b"])) % 3]


def test_a_key_is_octets():
    router = router_of("a", "b", "c")
    assert queues(router, "ü\udcff") == ["abc"[119205280 % 3]]


def test_routes_may_be_kept_and_all_of_them_change_with_a_binding():
    assert not ModulusHashRouter.per_message
    assert ModulusHashRouter().only_key("k") is None


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_bindings_with_numbers_that_hash_alike_may_come_and_go(seed: int):
    # Python's hash of a number is the same for each of these; that of a binding is not.
    alike = [7 + times * sys.hash_info.modulus for times in range(4)]
    bindings = [
        binding(arguments=dict(zip("abcde", each, strict=True)))
        for each in itertools.product(alike, repeat=5)
    ]
    assert len({hash(each) for each in bindings}) == len(bindings)
    router = ModulusHashRouter(seed=seed)
    for each in bindings:
        router.add(each)
    assert queues(router, "k") == ["q"]
    for each in bindings:
        router.remove(each)
    assert queues(router, "k") == []
