from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.exchange.types.bindings import binding, message, queues

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.exchange.types import make_router
from leporid.broker.exchange.types.random_choice import RandomRouter


def counted(router: RandomRouter, messages: int = 6_000) -> Counter[str]:
    return Counter(queues(router, "always the same")[0] for _ in range(messages))


def test_all_bindings_are_equally_likely_whatever_the_key():
    router = RandomRouter(seed=1)
    for name in "abc":
        router.add(binding("any", queue=name))
    for name, count in counted(router).items():
        assert 1_800 < count < 2_200, name


def test_what_is_bound_twice_gets_twice_as_much():
    router = RandomRouter(seed=2)
    for key, name in (("1", "a"), ("2", "a"), ("1", "b")):
        router.add(binding(key, queue=name))
    assert 3_800 < counted(router)["a"] < 4_200


def test_without_bindings_a_message_goes_nowhere():
    router = RandomRouter()
    assert queues(router) == []
    only = binding()
    router.add(only)
    assert queues(router) == ["q"]
    router.remove(only)
    assert queues(router) == []


def test_of_several_keys_one_binding_comes():
    router = RandomRouter()
    for name in "abc":
        router.add(binding(queue=name))
    assert len(list(router.match(message("a", "b", "c")))) == 1


@given(gone=st.lists(st.sampled_from("abcde"), unique=True, max_size=4))
def test_what_is_gone_gets_nothing_and_the_rest_everything(gone: list[str]):
    router = RandomRouter(seed=3)
    for name in "abcde":
        router.add(binding(queue=name))
    for name in gone:
        router.remove(binding(queue=name))
    assert set(counted(router, 200)) == set("abcde") - set(gone)


@pytest.mark.parametrize("seed", [0, 1, (1 << 64) - 1])
def test_chance_begins_where_it_is_told(seed: int):
    def drawn(first: int) -> list[str]:
        router = make_router("x-random", {}, lambda: first)
        for number in range(100):
            router.add(binding(queue=str(number)))
        return [queues(router)[0] for _ in range(20)]

    assert drawn(seed) == drawn(seed)
    assert drawn(seed) != drawn(7)


def test_no_route_may_be_kept():
    assert RandomRouter.per_message


def test_local_random_chooses_among_bindings_without_a_key():
    router = make_router("x-local-random", {}, lambda: 1)
    assert isinstance(router, RandomRouter)
    for name in "abc":
        router.validate("", {})
        router.add(binding("", queue=name))
    for name, count in counted(router).items():
        assert 1_800 < count < 2_200, name
    with pytest.raises(PreconditionFailed, match="Non empty binding 'k' key not permitted"):
        router.validate("k", {})
