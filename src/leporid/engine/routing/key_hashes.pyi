# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of key_hashes.pyx."""

def murmur3_32(data: bytes, seed: int) -> int:
    """Return MurmurHash3, with 32 bits."""

def jenkins_of_words(a: int, b: int, value: int) -> int:
    """Return the hash of two words, which goes on from an earlier one."""

def jenkins_of_bytes(data: bytes, value: int) -> int:
    """Return the hash of some bytes, which goes on from an earlier one; nothing changes nothing."""
