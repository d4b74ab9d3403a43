# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of rows.pyx."""

from collections.abc import Mapping, Sequence
from typing import Final

from typing_extensions import Buffer

REASONS: Final[Mapping[int, str]]
EXCHANGES_MAX: Final[int]

class BadRow(ValueError):
    """A row is not a valid message; no row was published."""

    row: int
    reason: str

    def __init__(self, row: int, reason: str) -> None: ...

class Rows:
    """Messages of one batch, encoded; made by `encode`."""

    @property
    def count(self) -> int: ...
    @property
    def exchanges(self) -> set[bytes]:
        """The names of all exchanges in the rows."""

    @property
    def bytes(self) -> int:
        """What it takes of memory beside the bodies."""

    def __len__(self) -> int: ...

def encode(
    rows: int,
    columns: Mapping[str, tuple[int, Sequence[Buffer | None]] | None],
    *,
    exchange: bytes,
    user_id: bytes | None = ...,
    body_bytes_max: int,
    wall_ms: int = ...,
) -> Rows:
    """Check and encode a batch; safe on any thread."""
