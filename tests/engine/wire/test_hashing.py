"""What somebody may choose so that looking up takes long: it takes as long as ever."""

from __future__ import annotations

import struct
import time

import pytest
from tests.engine.selectors.test_selector_set import made_of, selector

from leporid.engine.selectors.selector_set import SelectorSet
from leporid.engine.selectors.tags import Tags


def seconds(members: SelectorSet, raw: bytes, times: int) -> float:
    """How long so many look-ups take, when nobody disturbs."""
    took = []
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(times):
            members.matching("e", "k", raw)
        took.append(time.perf_counter() - begin)
    return min(took)


def raw_headers(*fields: bytes) -> bytes:
    table = b"".join(fields)
    return struct.pack(">HI", 0x2000, len(table)) + table


def test_values_of_another_kind_cost_as_much_as_there_are_conditions_on_them():
    """Not as much as there are members, for each header."""
    took = []
    for count in (100, 800):
        members = made_of(*(selector(f"n{number:04} = 'x'") for number in range(count)))
        raw = raw_headers(*(b"\5n%04dt\1" % number for number in range(count)))
        took.append(seconds(members, raw, 5))
        assert members.counts[1] == members.counts[0]  # all were asked
    assert took[1] < took[0] * 8 * 3


def colliding(count: int) -> list[bytes]:
    """Texts that had one hash when that was the same in all processes."""
    one, other = struct.unpack("<QQ", b"abcdefghijklmnop")
    blocks = (
        struct.pack("<QQ", one, other),
        struct.pack("<QQ", one ^ 1 << 63, other ^ (1 << 63 | 1 << 31)),
    )
    return [b"".join(blocks[number >> at & 1] for at in range(12)) for number in range(count)]


def test_texts_that_are_chosen_for_it_do_not_meet_in_one_bucket():
    made = colliding(4000)
    plain = [b"%0192d" % number for number in range(4000)]
    took = []
    for texts in (plain, made):
        members = made_of(*(Tags([text]) for text in texts))
        raw = raw_headers(b"\5x-tagS", struct.pack(">I", len(texts[0])), texts[0])
        assert members.matching("e", "k", raw) == [0]
        took.append(seconds(members, raw, 100))
    assert took[1] < took[0] * 4


@pytest.mark.parametrize("newest_first", [False, True])
def test_those_who_want_the_same_leave_as_soon_as_others(newest_first):
    took = []
    for tags in ([b"%d" % number for number in range(20_000)], [b"a"] * 20_000):
        members = made_of(*(Tags([tag]) for tag in tags))
        numbers = sorted(range(20_000), reverse=newest_first)
        begin = time.perf_counter()
        for number in numbers:
            members.remove(number)
        took.append(time.perf_counter() - begin)
        assert len(members) == members.indexed == 0
    assert took[1] < took[0] * 5
