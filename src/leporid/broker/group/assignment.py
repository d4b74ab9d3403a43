"""Sharing out partitions among the members of a group.

Responsible for who is to have which partition, and for taking it from the one before first. Must
not know what a member or a partition is, nor how long anything takes. Invariants: a partition has
one holder at a time; shares differ by at most one partition; as few change hands as that allows;
and the same events in the same order give the same shares.
"""

from __future__ import annotations

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


class Coordinator(Generic[M, P]):
    """The shares of one group.

    Args:
        partitions: what is shared out, in its order.
    """

    def __init__(self, partitions: Iterable[P] = ()) -> None:
        self._partitions = list(partitions)
        # In the order in which they joined; each with what is its share.
        self._shares: dict[M, list[P]] = {}
        self._owners: dict[P, M] = {}
        # Who has a partition: its owner, or the one from whom it is being taken.
        self._holders: dict[P, M] = {}
        self._stopping: set[P] = set()

    def __repr__(self) -> str:
        return (
            f"<Coordinator members={len(self._shares)} partitions={len(self._partitions)} "
            f"stopping={len(self._stopping)}>"
        )

    @property
    def members(self) -> list[M]:
        """The members, in the order in which they joined."""
        return list(self._shares)

    @property
    def partitions(self) -> list[P]:
        """What is shared out, in its order."""
        return list(self._partitions)

    def share(self, member: M) -> list[P]:
        """Return what a member is to have."""
        return list(self._shares[member])

    def holder(self, partition: P) -> M | None:
        """Return who has a partition now, or has not let go of it yet."""
        return self._holders.get(partition)

    def is_stopping(self, partition: P) -> bool:
        """Say whether a partition is being taken from its holder."""
        return partition in self._stopping

    # ------------------------------------------------------------------ events

    def join(self, member: M) -> Moves[M, P]:
        """Somebody is to have a share."""
        assert member not in self._shares
        self._shares[member] = []
        return self._share_out()

    def leave(self, *members: M) -> Moves[M, P]:
        """Some want nothing more; what they have, they let go in their own time."""
        for member in members:
            del self._shares[member]
        return self._share_out()

    def crash(self, member: M) -> Moves[M, P]:
        """Somebody is gone, and with it all that it had; it may have left before."""
        self._shares.pop(member, None)
        for partition in [each for each, one in self._holders.items() if one == member]:
            self._let_go(partition)
        return self._share_out()

    def release(self, partition: P) -> Moves[M, P]:
        """The holder of a partition that was stopped has let go of it."""
        assert partition in self._stopping
        self._let_go(partition)
        return self._moves((partition,))

    def change(self, partitions: Sequence[P]) -> Moves[M, P]:
        """There are other partitions now; of those that are gone nobody has anything."""
        self._partitions = list(partitions)
        for partition in self._holders.keys() - set(partitions):
            self._let_go(partition)
        return self._share_out()

    def _let_go(self, partition: P) -> None:
        del self._holders[partition]
        self._stopping.discard(partition)

    # ------------------------------------------------------------------ shares

    def _share_out(self) -> Moves[M, P]:
        self._balance()
        return self._moves(self._partitions)

    def _moves(self, partitions: Iterable[P]) -> Moves[M, P]:
        """What is to be done so that owners become holders."""
        moves: Moves[M, P] = Moves()
        for partition in partitions:
            owner, holder = self._owners.get(partition), self._holders.get(partition)
            if partition in self._stopping:
                continue
            if holder is None and owner is not None:
                self._holders[partition] = owner
                moves.start.append((partition, owner))
            elif holder is not None and holder != owner:
                self._stopping.add(partition)
                moves.stop.append((partition, holder))
        return moves

    def _balance(self) -> None:
        """Give everybody as much; who has too much gives, and who has most keeps one more."""
        there = set(self._partitions)
        for member, share in self._shares.items():
            self._shares[member] = [each for each in share if each in there]
        if not self._shares:
            self._owners = {}
            return
        least, more = divmod(len(self._partitions), len(self._shares))
        by_share = sorted(self._shares, key=lambda member: -len(self._shares[member]))
        quota = {member: least + (at < more) for at, member in enumerate(by_share)}
        for member, share in self._shares.items():
            # What is still being brought to it is given up first.
            share.sort(key=lambda each: self._holders.get(each) != member)
            del share[quota[member] :]
        kept = {each for share in self._shares.values() for each in share}
        free: list[P] = []
        for partition in self._partitions:
            holder = self._holders.get(partition)
            if partition in kept:
                continue
            # What somebody was to lose, and has still, needs no hand-over.
            if holder in self._shares and len(self._shares[holder]) < quota[holder]:
                self._shares[holder].append(partition)
            else:
                free.append(partition)
        for member, share in self._shares.items():
            room = quota[member] - len(share)
            share.extend(free[:room])
            del free[:room]
        order = {partition: at for at, partition in enumerate(self._partitions)}
        for share in self._shares.values():
            share.sort(key=order.__getitem__)
        self._owners = {each: member for member, share in self._shares.items() for each in share}
