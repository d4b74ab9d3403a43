"""Slots of a resource that everybody needs and of which there are few, fair by key.

Responsible for who gets a slot, who waits for one, and who is refused. Must not know what a slot is
of, who a key is, or what time it is: whoever gives time to wait ends the waiting. A key is whom
slots are counted for: the peer's address before login, the user after; never None.

The rule: a key that holds fewer slots than are free gets one more. One key alone gets half of them,
n keys get the (n + 1)th part each, and somebody who comes later finds slots free. Whoever releases
a slot gives it to all.

Invariants: slots held and free together are always all there are. Nobody waits who is first in its
line and could have what it waits for. Lines of waiting keys take turns, so whoever waits for one
gets it as long as slots are released; who waits for many may wait until few are held.
"""

from __future__ import annotations

import functools
import ipaddress
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple, Self

from leporid.limits.refusals import Refusals

# What one customer of a provider gets, and one machine may take any address of (RFC 4291, 2.5.1).
IPV6_NETWORK_BITS: Final = 64
# Whose keys are remembered: to read an address takes as long as to accept a connection from it.
ADDRESSES_MAX: Final = 1024


class Address(NamedTuple):
    """An address as a key; a text alone would be that of a user whose name it is, too."""

    text: str

    def __str__(self) -> str:
        return self.text


@functools.lru_cache(maxsize=ADDRESSES_MAX)
def address_key(host: str) -> Hashable:
    """Return the key of a peer that has not logged in.

    Args:
        host: its address as text. All of one IPv6 network of 64 bits are one key: whoever has such
            a network would have as many keys as they like.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return Address(host)
    if address.version == 4:
        return Address(host)
    if address.ipv4_mapped is not None:
        return Address(str(address.ipv4_mapped))
    return address.packed[: IPV6_NETWORK_BITS // 8]


class NoSlot(Exception):
    """There is no slot, and no place to wait for one, for this key now.

    Attributes:
        limit: the name of the share.
        value: how many slots there are, for all keys together.
        own: True if the key has its share already, and others could get a slot or a place to wait
            for one (HTTP 429); False if all are used up, whoever uses them (HTTP 503).
    """

    def __init__(self, limit: str, value: int, own: bool) -> None:
        used = "your share of them is used up" if own else "all are in use"
        super().__init__(f"{limit}: there are {value}, and {used}; try again later")
        self.limit = limit
        self.value = value
        self.own = own


class Slot:
    """One or more slots that a key holds, until `release`."""

    __slots__ = ("_count", "_key", "_share")

    def __init__(self, share: Share, key: Hashable, count: int) -> None:
        """Made by `Share`."""
        self._share = share
        self._key = key
        self._count = count

    def __repr__(self) -> str:
        return f"<Slot of {self._share.name}: {self._count} for {self._key!r}>"

    @property
    def count(self) -> int:
        """How many slots these are; 0 once they are released."""
        return self._count

    def add(self, count: int) -> None:
        """Take more slots by the same rule, as for bytes whose number is not known before.

        Raises:
            NoSlot: nothing was added; what is held stays held.
        """
        assert self._count, "released before"
        self._share.charge(self._key, count)
        self._count += count

    def keep(self, count: int) -> None:
        """Give those back that are over so many."""
        if count < self._count:
            over, self._count = self._count - count, count
            self._share.give_back(self._key, over)

    def release(self) -> None:
        """Give them back, and to who waits for one; after the first time, nothing happens."""
        self.keep(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Waiter:
    """One place in the line of a key, until its slots are there."""

    __slots__ = ("_begin", "_share", "count", "key", "slot")

    def __init__(
        self, share: Share, key: Hashable, begin: Callable[[Slot], None], count: int
    ) -> None:
        """Made by `Share`."""
        self._share = share
        self.key = key
        self.count = count
        self._begin = begin
        self.slot: Slot | None = None
        """What it waited for, once it is there."""

    def leave(self) -> None:
        """Wait no longer; a slot that was there already is released.

        For whoever waited and is gone, whether its turn has come or not.
        """
        if self.slot is not None:
            self.slot.release()
        else:
            self._share.forget(self)

    def give_up(self) -> NoSlot:
        """Wait no longer, because it took too long; returns the refusal, which is counted."""
        self.leave()
        return self._share.refuse(own=self._share.free >= self.count)

    def start(self, slot: Slot) -> None:
        """Called by `Share`: there is a slot."""
        self.slot = slot
        self._begin(slot)


class Share:
    """The slots of one resource.

    Args:
        name: what the slots are of, in lower case with underscores: the limit that refusals name,
            and their kind where they are counted.
        slots: how many there are; more than 0. An attribute that may be changed, say by a test:
            what is held above it stays held.
        refusals: where refusals are counted.
        waiting_max: places to wait, of all keys together. They are shared by the same rule: one
            key alone gets half of them. 0: nobody waits.
    """

    def __init__(self, name: str, slots: int, refusals: Refusals, waiting_max: int = 0) -> None:
        assert slots > 0, slots
        self.name = name
        self.slots = slots
        self.waiting_max = waiting_max
        self._refusals = refusals
        refusals.expect(name)
        self._held: dict[Hashable, int] = {}
        self._used = 0
        # Those who wait, by key, and the keys in the order of their turns.
        self._lines: dict[Hashable, dict[Waiter, None]] = {}
        self._turns: deque[Hashable] = deque()
        self._waiting = 0
        self._giving = False

    def __repr__(self) -> str:
        return f"<Share {self.name}: {self._used} of {self.slots}, {self._waiting} waiting>"

    @property
    def used(self) -> int:
        """How many slots are held."""
        return self._used

    @property
    def free(self) -> int:
        """How many are not."""
        return max(0, self.slots - self._used)

    @property
    def waiting(self) -> int:
        """How many wait, of all keys together."""
        return self._waiting

    def waiting_of(self, key: Hashable) -> int:
        """How many wait in the line of one key."""
        return len(self._lines.get(key, ()))

    def held(self, key: Hashable) -> int:
        """How many slots a key holds."""
        return self._held.get(key, 0)

    def largest(self) -> Hashable | None:
        """Return a key that holds most; None if nobody holds any. Costs a look at each key."""
        return max(self._held, key=self._held.__getitem__, default=None)

    def take(self, key: Hashable, count: int = 1) -> Slot:
        """Take slots at once, all or none.

        Args:
            key: who takes them.
            count: how many; more than one where they are units of something, such as bytes.

        Raises:
            NoSlot: with these, the key would hold more than were free without them.
        """
        self.charge(key, count)
        return Slot(self, key, count)

    def wait(self, key: Hashable, begin: Callable[[Slot], None], count: int = 1) -> Waiter:
        """Take a slot now, or else in the turn of this key's line.

        Args:
            key: who waits.
            begin: called once with the slot, before this returns or when others release one.
                It must not raise. Whoever is called releases the slot.
            count: how many, all together; as for `take`.

        Raises:
            NoSlot: there is no place to wait either; `begin` is never called.
        """
        waiter = Waiter(self, key, begin, count)
        line = self._lines.get(key, {})
        if not line and self._may_hold(key, count):
            self._hold(key, count)
            waiter.start(Slot(self, key, count))
            return waiter
        free = self.waiting_max - self._waiting
        if len(line) >= free:
            raise self.refuse(own=free > 0 or self.free > 0)
        if not line:
            self._lines[key] = line
            self._turns.append(key)
        line[waiter] = None
        self._waiting += 1
        return waiter

    # ---------------------------------------------------- for Slot and Waiter

    def charge(self, key: Hashable, count: int) -> None:
        """Count slots as held, or raise NoSlot; for `Slot`."""
        if not self._may_hold(key, count):
            raise self.refuse(own=self.free >= count)
        self._hold(key, count)

    def give_back(self, key: Hashable, count: int) -> None:
        """Count slots as free again, and let who waits have them; for `Slot`."""
        self._used -= count
        left = self._held[key] - count
        if left:
            self._held[key] = left
        else:
            del self._held[key]
        self._give()

    def _give(self) -> None:
        # Who begins now may release at once: that is not one call deeper for each who waits.
        if self._giving:
            return
        self._giving = True
        try:
            while (waiter := self._next()) is not None:
                waiter.start(Slot(self, waiter.key, waiter.count))
        finally:
            self._giving = False

    def forget(self, waiter: Waiter) -> None:
        """Take somebody out of the line; for `Waiter`."""
        line = self._lines.get(waiter.key)
        if line is None or waiter not in line:
            return
        self._leave_line(waiter, line)
        if not line:
            self._turns.remove(waiter.key)
        self._give()  # it may have been in front of somebody who waits for less

    def refuse(self, own: bool) -> NoSlot:
        """Count a refusal, and return it; for `Waiter`."""
        self._refusals.count(self.name)
        return NoSlot(self.name, self.slots, own)

    def _next(self) -> Waiter | None:
        """Hold slots for the first in turn who may have them; None if nobody may.

        A key that may not have one holds one already, so this looks at no more lines than there are
        slots; or, where they are bytes, places to wait.
        """
        if self._used >= self.slots:
            return None
        for key in self._turns:
            line = self._lines[key]
            waiter = next(iter(line))
            if self._may_hold(key, waiter.count):
                break
        else:
            return None
        self._turns.remove(key)
        self._leave_line(waiter, line)
        if line:
            self._turns.append(key)
        self._hold(key, waiter.count)
        return waiter

    def _leave_line(self, waiter: Waiter, line: dict[Waiter, None]) -> None:
        del line[waiter]
        self._waiting -= 1
        if not line:
            del self._lines[waiter.key]

    def _may_hold(self, key: Hashable, count: int) -> bool:
        return self._held.get(key, 0) + count <= self.slots - self._used

    def _hold(self, key: Hashable, count: int) -> None:
        self._held[key] = self._held.get(key, 0) + count
        self._used += count
