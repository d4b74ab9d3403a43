"""Who has connected and not logged in, by address: who goes when others want to come.

Responsible for these lists only. Must not know sockets, deadlines or how a link is closed.
Invariant: whatever is asked or changed costs the same, however many links and addresses there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Handshakes(Generic[T]):
    """Links by address, each in the order in which it came."""

    def __init__(self) -> None:
        self._address: dict[T, Hashable] = {}
        self._links: dict[Hashable, OrderedDict[T, None]] = {}
        # Addresses by how many links they have, and the highest of these numbers.
        self._addresses: dict[int, OrderedDict[Hashable, None]] = {}
        self._most = 0

    def __len__(self) -> int:
        return len(self._address)

    def __contains__(self, link: T) -> bool:
        return link in self._address

    def __repr__(self) -> str:
        return f"<Handshakes {len(self)} of {len(self._links)} addresses>"

    def count(self, address: Hashable) -> int:
        """How many links an address has."""
        return len(self._links.get(address, ()))

    def add(self, link: T, address: Hashable) -> None:
        """A peer has connected."""
        links = self._links.setdefault(address, OrderedDict())
        self._move(address, len(links), len(links) + 1)
        links[link] = None
        self._address[link] = address

    def remove(self, link: T) -> None:
        """It has logged in, or is gone; a second time, nothing happens."""
        if link not in self._address:
            return
        address = self._address.pop(link)
        links = self._links[address]
        self._move(address, len(links), len(links) - 1)
        del links[link]
        if not links:
            del self._links[address]

    def oldest_of_most(self) -> tuple[T, int] | None:
        """Return the oldest link of an address that has most, and how many that is."""
        if not self._most:
            return None
        address = next(iter(self._addresses[self._most]))
        return next(iter(self._links[address])), self._most

    def _move(self, address: Hashable, before: int, after: int) -> None:
        if before:
            del self._addresses[before][address]
            if not self._addresses[before]:
                del self._addresses[before]
        if after:
            self._addresses.setdefault(after, OrderedDict())[address] = None
        # One less than the most is what this address has now, if nobody else has as many.
        if after > self._most or (before == self._most and before not in self._addresses):
            self._most = after
