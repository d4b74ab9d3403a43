"""Assignment of partitions to the members of a group.

Responsible for which member owns which partition, and for stopping the holder before the new owner
starts. Must not know what a member or a partition is, nor how long anything takes. Invariants: a
partition has one holder at a time; shares differ by at most one partition; as few partitions move
as that allows; the same events in the same order give the same shares. An event costs as much as
partitions move, however many members there are: members without a partition are not looked at.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

M = TypeVar("M", bound=Hashable)
P = TypeVar("P", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Moves(Generic[M, P]):
    """What is to be done, in this order."""

    stop: list[tuple[P, M]] = field(default_factory=list)
    """Nothing more of a partition is for its holder; `release` it when that one is done with it."""
    start: list[tuple[P, M]] = field(default_factory=list)
    """A partition has a new holder, and nobody had it before."""


class _Share(Generic[P]):
    """What one member is to have."""

    __slots__ = ("due", "has")

    def __init__(self) -> None:
        # What it has, in the order in which it got it.
        self.has: dict[P, None] = {}
        # What it is still to get.
        self.due: dict[P, None] = {}

    def __len__(self) -> int:
        return len(self.has) + len(self.due)

    def take(self) -> P:
        """Remove one partition: what is still being brought is given up first."""
        return (self.due or self.has).popitem()[0]

    def drop(self, partition: P) -> None:
        """Remove that one."""
        (self.due if partition in self.due else self.has).pop(partition)


class Coordinator(Generic[M, P]):
    """The shares of one group.

    Args:
        partitions: what is shared out, in its order.
    """

    def __init__(self, partitions: Iterable[P] = ()) -> None:
        self._partitions = list(partitions)
        self._order = {each: at for at, each in enumerate(self._partitions)}
        # In the order in which they joined.
        self._shares: dict[M, _Share[P]] = {}
        # By the size of their share; who came to that size last comes last. Linked lists, because
        # the first one of a dict whose first ones were removed is found slowly. None is empty.
        self._by_size: dict[int, OrderedDict[M, None]] = {}
        self._owners: dict[P, M] = {}
        # Who has a partition: its owner, or the one from whom it is being taken.
        self._holders: dict[P, M] = {}
        # The same by holder; none is empty.
        self._held: dict[M, dict[P, None]] = {}
        self._stopping: set[P] = set()

    def __repr__(self) -> str:
        return (
            f"<Coordinator members={len(self._shares)} partitions={len(self._partitions)} "
            f"stopping={len(self._stopping)}>"
        )

    def __len__(self) -> int:
        """Count the members."""
        return len(self._shares)

    def __contains__(self, member: object) -> bool:
        """Say whether somebody is a member."""
        return member in self._shares

    @property
    def members(self) -> list[M]:
        """The members, in the order in which they joined."""
        return list(self._shares)

    @property
    def partitions(self) -> Sequence[P]:
        """What is shared out, in its order."""
        return self._partitions

    @property
    def is_abandoned(self) -> bool:
        """Whether there is no member, and no former member still holds a partition."""
        return not self._shares and not self._holders

    def share(self, member: M) -> list[P]:
        """Return what a member is to have."""
        share = self._shares[member]
        return self._sorted((*share.has, *share.due))

    def holder(self, partition: P) -> M | None:
        """Return the member, or former member, that holds a partition now."""
        return self._holders.get(partition)

    def is_stopping(self, partition: P) -> bool:
        """Say whether a partition is being taken from its holder."""
        return partition in self._stopping

    # ------------------------------------------------------------------ events

    def join(self, member: M) -> Moves[M, P]:
        """A member joins, and gets a share."""
        assert member not in self._shares
        free = [] if self._shares else self._partitions
        self._shares[member] = _Share()
        self._enter(member, 0)
        return self._moves(self._balance(free))

    def leave(self, member: M) -> Moves[M, P]:
        """A member leaves; it holds its partitions until each is released."""
        return self._moves(self._balance(self._remove(member)))

    def leave_all(self) -> tuple[Iterable[M], Moves[M, P]]:
        """Do the same with all members; returns them too, in the order in which they joined."""
        members = self._shares
        self._shares, self._by_size, self._owners = {}, {}, {}
        return members, self._moves(self._holders)

    def crash(self, member: M) -> Moves[M, P]:
        """A member is gone, and holds nothing any more; it may have left before."""
        free = self._remove(member) if member in self._shares else []
        held = tuple(self._held.get(member, ()))
        for partition in held:
            self._let_go(partition)
        return self._moves(self._balance(free) | dict.fromkeys(held))

    def release(self, partition: P) -> Moves[M, P]:
        """The holder of a partition that was stopped has let go of it."""
        assert partition in self._stopping
        self._let_go(partition)
        return self._moves((partition,))

    def change(self, partitions: Sequence[P]) -> Moves[M, P]:
        """Replace the list of partitions; those that are gone are released."""
        before, self._partitions = self._order, list(partitions)
        self._order = {each: at for at, each in enumerate(self._partitions)}
        for partition in before:
            if partition not in self._order:
                if partition in self._holders:
                    self._let_go(partition)
                if partition in self._owners:
                    self._take(self._owners[partition], partition)
        return self._moves(self._balance([each for each in self._order if each not in before]))

    # ------------------------------------------------------------------ shares

    def _sorted(self, partitions: Iterable[P]) -> list[P]:
        return sorted(partitions, key=self._order.__getitem__)

    def _moves(self, partitions: Iterable[P]) -> Moves[M, P]:
        """What is to be done so that owners become holders."""
        moves: Moves[M, P] = Moves()
        for partition in self._sorted(partitions):
            owner, holder = self._owners.get(partition), self._holders.get(partition)
            if partition in self._stopping:
                continue
            if holder is None and owner is not None:
                self._holders[partition] = owner
                self._held.setdefault(owner, {})[partition] = None
                share = self._shares[owner]
                del share.due[partition]
                share.has[partition] = None
                moves.start.append((partition, owner))
            elif holder is not None and holder != owner:
                self._stopping.add(partition)
                moves.stop.append((partition, holder))
        return moves

    def _let_go(self, partition: P) -> None:
        holder = self._holders.pop(partition)
        held = self._held[holder]
        del held[partition]
        if not held:
            del self._held[holder]
        if self._owners.get(partition) == holder and partition not in self._stopping:
            share = self._shares[holder]
            del share.has[partition]
            share.due[partition] = None
        self._stopping.discard(partition)

    def _balance(self, free: Iterable[P]) -> dict[P, None]:
        """Give free partitions to the members with fewest, then even the shares out.

        Returns the partitions that have another owner now. Always giving to a member with fewest
        means that none gets a partition only to lose it again.
        """
        given: dict[P, None] = {}
        if not self._shares:
            return dict.fromkeys(free)
        rest = []
        for partition in free:
            # What somebody was to lose, and has still, needs no hand-over.
            holder = self._holders.get(partition)
            share = None if holder is None else self._shares.get(holder)
            if holder is not None and share is not None and len(share) == min(self._by_size):
                self._give(holder, partition)
                given[partition] = None
            else:
                rest.append(partition)
        for partition in rest:
            self._give(next(iter(self._by_size[min(self._by_size)])), partition)
            given[partition] = None
        while (most := max(self._by_size)) - (least := min(self._by_size)) > 1:
            partition = self._take(next(reversed(self._by_size[most])))
            self._give(next(iter(self._by_size[least])), partition)
            given[partition] = None
        return given

    def _give(self, member: M, partition: P) -> None:
        share = self._shares[member]
        self._move(member, len(share), len(share) + 1)
        share.due[partition] = None
        self._owners[partition] = member

    def _take(self, member: M, partition: P | None = None) -> P:
        """Take one partition, or that one, from its owner."""
        share = self._shares[member]
        self._move(member, len(share), len(share) - 1)
        if partition is None:
            partition = share.take()
        else:
            share.drop(partition)
        del self._owners[partition]
        return partition

    def _remove(self, member: M) -> list[P]:
        """Forget a member; returns its share."""
        partitions = self.share(member)
        self._quit(member, len(partitions))
        del self._shares[member]
        for partition in partitions:
            del self._owners[partition]
        return partitions

    def _move(self, member: M, before: int, after: int) -> None:
        self._quit(member, before)
        self._enter(member, after)

    def _enter(self, member: M, size: int) -> None:
        self._by_size.setdefault(size, OrderedDict())[member] = None

    def _quit(self, member: M, size: int) -> None:
        members = self._by_size[size]
        del members[member]
        if not members:
            del self._by_size[size]
