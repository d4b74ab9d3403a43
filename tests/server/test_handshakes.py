"""Who has not logged in: whose oldest goes, against a list of everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leporid.server.handshakes import Handshakes

ADDRESSES = ("a", "b", "c", "d")


@given(st.lists(st.tuples(st.sampled_from(ADDRESSES), st.integers(0, 12), st.booleans())))
def test_the_oldest_of_an_address_with_most_is_found(steps: list[tuple[str, int, bool]]):
    handshakes: Handshakes[int] = Handshakes()
    there: list[tuple[int, str]] = []
    for link, (address, which, comes) in enumerate(steps):
        if comes:
            handshakes.add(link, address)
            there.append((link, address))
        elif there:
            gone = there.pop(which % len(there))
            handshakes.remove(gone[0])
            handshakes.remove(gone[0])
        counts = {each: sum(other == each for _, other in there) for each in ADDRESSES}
        assert len(handshakes) == len(there)
        assert {each: handshakes.count(each) for each in ADDRESSES} == counts
        found = handshakes.oldest_of_most()
        if not there:
            assert found is None
            continue
        assert found is not None
        oldest, most = found
        (address,) = [each for other, each in there if other == oldest]
        assert most == counts[address] == max(counts.values())
        assert oldest == next(other for other, each in there if each == address)


def test_it_says_how_many_there_are():
    handshakes: Handshakes[str] = Handshakes()
    for link in ("one", "two", "three"):
        handshakes.add(link, link[0])
    assert repr(handshakes) == "<Handshakes 3 of 2 addresses>"


def test_it_knows_who_has_not_logged_in():
    handshakes: Handshakes[str] = Handshakes()
    handshakes.add("link", "address")
    assert "link" in handshakes
    handshakes.remove("link")
    assert "link" not in handshakes
