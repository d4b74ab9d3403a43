"""Murmur3 against published vectors; Jenkins' hash is tested as Erlang's `phash2`."""

from __future__ import annotations

import pytest

from leporid.engine.routing.key_hashes import murmur3_32


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        # Those that other implementations test with.
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"", 0xFFFFFFFF, 0x81F16F39),
        (b"\xff\xff\xff\xff", 0, 0x76293B50),
        (b"\x21\x43\x65\x87", 0, 0xF55B516B),
        (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
        (b"\x21\x43\x65", 0, 0x7E4A8634),
        (b"\x21\x43", 0, 0xA0F7B07A),
        (b"\x21", 0, 0x72661CF4),
        (b"\0\0\0\0", 0, 0x2362F9DE),
        (b"foo", 0, 4138058784),
        # Those of RabbitMQ's stream client in Java.
        (b"hello", 104729, 1321743225),
        (b"brave", 104729, 3825276426),
        (b"new", 104729, 2970740106),
        (b"world", 104729, 2453398188),
        (b"hello", 42, 3806057185),
        (b"brave", 42, 619588758),
        (b"new", 42, 1483300585),
        (b"world", 42, 1145629360),
    ],
)
def test_published_vectors(data: bytes, seed: int, expected: int):
    assert murmur3_32(data, seed) == expected
