# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of sharded_dict.pyx."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")

class Shard:
    """A dict, or those that it has become; not for Python."""

class ShardedDict(Generic[_Key, _Value]):
    """A dict that never grows in one long step; without order once it has many entries."""

    def __len__(self) -> int: ...
    def __contains__(self, key: object) -> bool: ...
    def __getitem__(self, key: _Key) -> _Value: ...
    def __setitem__(self, key: _Key, value: _Value) -> None: ...
    def __delitem__(self, key: _Key) -> None: ...
    def __iter__(self) -> Iterator[_Key]: ...
    def get(self, key: _Key) -> _Value | None:
        """The value of a key, or None."""

    def values(self) -> Iterator[_Value]:
        """The values, in the order of the keys."""

    def popitem(self) -> tuple[_Key, _Value]:
        """Remove an entry and return it; raises KeyError if there is none."""

    def pop(self, key: _Key) -> _Value | None:
        """Remove a key, if it is there, and return its value; None: it was not."""
