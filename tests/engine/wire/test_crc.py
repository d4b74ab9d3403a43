"""CRC32C: all ways come to the same, whatever the length."""

import random

import pytest
from tests.storage.format_v1 import crc32c

from leporid.engine.wire.crc import checksum, checksum_by_tables, joined_checksum

WAYS = [checksum, checksum_by_tables]


@pytest.mark.parametrize("way", WAYS)
def test_the_check_value_of_the_algorithm(way):
    assert way(b"123456789") == 0xE3069283
    assert way(b"") == 0


@pytest.mark.parametrize("way", WAYS)
def test_any_length_and_seed(way):
    chance = random.Random(13)
    for length in [*range(40), 255, 1000]:
        data, seed = chance.randbytes(length), chance.getrandbits(32)
        assert way(data, seed) == crc32c(data, seed)


@pytest.mark.parametrize("way", WAYS)
def test_a_seed_continues_where_another_call_ended(way):
    data = bytes(range(100))
    assert way(data[37:], way(data[:37])) == way(data)


def test_parts_are_joined_without_reading_the_first():
    chance = random.Random(14)
    for length in [0, 1, 7, 255, 256, 257, 65_535, 65_536, 70_001, 17_000_000]:
        first, second = chance.randbytes(33), chance.randbytes(length)
        seed = chance.getrandbits(32)
        assert joined_checksum(checksum(first, seed), second) == checksum(first + second, seed)
