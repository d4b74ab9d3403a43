"""A mapping like any other, whose parts stay small however many entries it has."""

from __future__ import annotations

import gc
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.engine.bounds.sharded_dict import ShardedDict

MANY = 20_000


class Key:
    """A key with a hash that tests choose."""

    def __init__(self, name: str, hashed: int) -> None:
        self.name = name
        self.hashed = hashed

    def __hash__(self) -> int:
        return self.hashed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.name == other.name


class Counted:
    """A key that counts how often its like were asked for their hashes."""

    asked = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        Counted.asked += 1
        return hash(self.number)


def filled(count: int) -> ShardedDict[int, str]:
    found: ShardedDict[int, str] = ShardedDict()
    for number in range(count):
        found[number] = str(number)
    return found


def largest(found: ShardedDict[int, str]) -> int:
    """The entries of the largest dict that it consists of."""
    waiting, most = deque(gc.get_referents(found)), 0
    while waiting:
        part = waiting.popleft()
        if isinstance(part, dict):
            most = max(most, len(part))
        elif not isinstance(part, type | int | str):
            waiting.extend(gc.get_referents(part))
    return most


@pytest.mark.parametrize("count", [0, 3, MANY])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(("set", "delete", "pop", "popitem")), st.integers(-3, 3)),
        max_size=40,
    )
)
def test_it_answers_as_a_dict_does(count: int, steps: list[tuple[str, int]]) -> None:
    found, model = filled(count), dict(filled_model(count))
    for what, number in steps:
        if what == "set":
            found[number] = model[number] = what
        elif what == "pop":
            assert found.pop(number) == model.pop(number, None)
        elif what == "popitem" and model:
            key, value = found.popitem()
            assert model.pop(key) == value
        elif what == "delete" and number in model:
            del found[number], model[number]
        assert len(found) == len(model)
        assert (number in found) == (number in model)
        assert found.get(number) == model.get(number)
    assert sorted(found) == sorted(model)
    assert sorted(found.values()) == sorted(model.values())
    if count < MANY:
        assert list(found) == list(model) or "popitem" in dict(steps)


def filled_model(count: int) -> dict[int, str]:
    return {number: str(number) for number in range(count)}


@pytest.mark.parametrize("count", [3, MANY])
def test_what_is_not_there_is_a_key_error(count: int) -> None:
    found = filled(count)
    with pytest.raises(KeyError):
        found[-1]
    assert found.pop(-1) is None
    with pytest.raises(KeyError):
        del found[-1]
    assert len(found) == count
    with pytest.raises(KeyError):
        filled(0).popitem()


def test_of_many_entries_no_part_has_many() -> None:
    assert largest(filled(1024)) == 1024, "one dict, in order"
    assert largest(filled(1025)) < 200
    assert largest(filled(100_000)) <= 1024


def test_an_addition_moves_few_entries_however_many_there_are() -> None:
    found: ShardedDict[Counted, None] = ShardedDict()
    worst = 0
    for number in range(40_000):
        key = Counted(number)
        Counted.asked = 0
        found[key] = None
        worst = max(worst, Counted.asked)
    assert len(found) == 40_000
    # Each that is moved is asked which dict it is in, and by that dict.
    assert 1024 < worst < 3 * 1024


@pytest.mark.parametrize(("count", "looked_at"), [(1000, 1000), (MANY, 0)])
def test_pythons_collector_looks_at_no_part_of_many_entries(count: int, looked_at: int) -> None:
    """In an exchange of 260,000 bindings it looked at 34,000 entries for 1,200 that had come."""
    made: ShardedDict[int, deque[int]] = ShardedDict()
    for number in range(count):
        made[number] = deque()
    dicts = [each for each in gc.get_objects() if type(each) is dict]
    parts = [each for each in dicts if each and type(next(iter(each.values()))) is deque]
    assert sum(len(each) for each in parts if each.keys() <= set(range(count))) == looked_at
    assert len(made) == count


@pytest.mark.parametrize("count", [3, MANY])
def test_others_may_come_and_go_while_keys_are_gone_through(count: int) -> None:
    found = filled(count)
    met = []
    for key in found:
        met.append(key)
        if key % 2 == 0:
            del found[key]
            found[-key - 1] = "new"
    stayed = [key for key in range(count) if key % 2]
    assert [key for key in sorted(met) if key in stayed] == stayed
    assert len(met) == len(set(met)), "each once"


def test_keys_with_one_hash_are_told_apart() -> None:
    found: ShardedDict[Key, int] = ShardedDict()
    for number in range(3000):
        found[Key(str(number), 7)] = number
    assert found[Key("42", 7)] == 42
    assert Key("3000", 7) not in found
    assert len({key.name for key in found}) == 3000
