# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of arrow.pyx."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from leporid.engine.log.window import Window
from leporid.engine.tables.arrays import Buffer
from leporid.engine.tables.chosen import Chosen

# Number of nulls, buffers in Arrow's order, children.
_Column: TypeAlias = tuple[int, list[Buffer | None], list[_Column]]

COLUMNS: Final[tuple[str, ...]]
ENTRY_COLUMNS: Final[tuple[str, ...]]
PROPERTIES: Final[tuple[str, ...]]

def batch_bytes_max(names: Iterable[str], *, name_bytes: int, rows: int, record_bytes: int) -> int:
    """What columns and the batch that is encoded of them take together, at most."""

def columns_of(
    window: Window,
    names: Iterable[str],
    *,
    stream: str,
    partition: int = ...,
    chosen: Chosen | None = ...,
) -> tuple[int, list[_Column]]:
    """Number of rows, and each column asked for; safe on any thread."""
