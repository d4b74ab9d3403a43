# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of crc.pyx."""

def checksum(data: bytes, seed: int = 0) -> int:
    """The CRC of some bytes, as records have it."""

def checksum_by_tables(data: bytes, seed: int = 0) -> int:
    """The same, on any processor."""

def joined_checksum(first: int, second: bytes) -> int:
    """The CRC of two parts, of which the first one has the CRC `first`."""
