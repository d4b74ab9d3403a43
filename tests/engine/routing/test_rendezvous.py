from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid.engine.routing.rendezvous import Rendezvous

KEYS = [f"order-{number}".encode() for number in range(1_000)]
PLACES = st.dictionaries(st.binary(min_size=1, max_size=8), st.integers(1, 20), max_size=12)


def of(places: dict[bytes, int]) -> Rendezvous:
    made = Rendezvous()
    for name, weight in places.items():
        made.add(name, weight)
    return made


def chosen(places: Rendezvous) -> dict[bytes, bytes | None]:
    return {key: places.choose(key) for key in KEYS}


def test_without_places_a_key_belongs_nowhere():
    places = Rendezvous()
    assert places.choose(b"k") is None
    places.add(b"a", 1)
    assert places.choose(b"k") == b"a"
    places.remove(b"a")
    assert places.choose(b"k") is None
    assert len(places) == 0


# What these are must not change: they say in which queue a restarted broker looks for a key.
def test_the_choice_is_the_same_in_every_process():
    places = of({b"a": 1, b"b": 2, b"c": 1})
    picked = b"".join(places.choose(f"key {number}".encode()) or b"" for number in range(24))
    assert picked == b"babbbbcbbabbabbbbbaaacca"


@pytest.mark.parametrize(
    "weights", [(1, 1), (1, 2, 3), (10, 1, 1, 1, 1), (7,) * 9, (10_000, 10_000, 5_000)]
)
def test_shares_follow_weights(weights: tuple[int, ...]):
    places = of({f"q{number}".encode(): weight for number, weight in enumerate(weights)})
    total = 20_000
    counted = Counter(places.choose(f"{number}".encode()) for number in range(total))
    for number, weight in enumerate(weights):
        share = weight / sum(weights)
        deviation = (total * share * (1 - share)) ** 0.5
        assert abs(counted[f"q{number}".encode()] - total * share) < 5 * deviation


@settings(max_examples=20)
@given(places=PLACES, data=st.data())
def test_a_place_that_comes_or_goes_moves_its_own_keys_only(
    places: dict[bytes, int], data: st.DataObject
):
    if not places:
        return
    changing = data.draw(st.sampled_from(sorted(places)))
    made = of(places)
    before = chosen(made)
    made.remove(changing)
    after = chosen(made)
    assert changing not in after.values()
    moved = {key for key in KEYS if before[key] != after[key]}
    assert moved == {key for key in KEYS if before[key] == changing}
    made.add(changing, places[changing])
    assert chosen(made) == before


@settings(max_examples=20)
@given(places=PLACES, order=st.randoms(use_true_random=False))
def test_the_order_of_places_does_not_matter(places: dict[bytes, int], order):
    names = list(places)
    order.shuffle(names)
    assert chosen(of({name: places[name] for name in names})) == chosen(of(places))


def test_many_places_come_and_go():
    places = Rendezvous()
    for number in range(1_000):
        places.add(b"%d" % number, 1)
    for number in range(999):
        places.remove(b"%d" % number)
    assert places.choose(b"k") == b"999"
    assert repr(places) == "<Rendezvous places=1>"


def test_a_mistake_of_ours_is_refused():
    places = of({b"a": 1})
    for name, weight in ((b"a", 1), (b"b", 0), (b"b", -1), (b"b", float("nan"))):
        with pytest.raises(ValueError, match="the name exists, or the weight"):
            places.add(name, weight)
    with pytest.raises(KeyError):
        places.remove(b"b")
