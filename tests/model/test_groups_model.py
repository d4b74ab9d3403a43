"""Whatever members do, shares are even, moves few, and no partition has two holders."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leporid.broker.group.assignment import Coordinator, Moves


class Group(RuleBasedStateMachine):
    """Members that do what they are told, some of them late."""

    def __init__(self) -> None:
        super().__init__()
        self.joined = 0
        self.members: list[int] = []
        # As those outside see it: who reads a partition, and who has stopped and not let go.
        self.reading: dict[int, int] = {}
        self.stopped: dict[int, int] = {}

    @initialize(count=st.integers(1, 12))
    def begin(self, count: int) -> None:
        self.next_partition = count
        self.partitions = list(range(count))
        self.group: Coordinator[int, int] = Coordinator(self.partitions)
        self.twin: Coordinator[int, int] = Coordinator(self.partitions)

    def do(self, name: str, *arguments: object) -> None:
        """Tell both, and do what they say, which is the same."""
        before = {member: set(self.group.share(member)) for member in self.group.members}
        moves: Moves[int, int] = getattr(self.group, name)(*arguments)
        assert moves == getattr(self.twin, name)(*arguments)
        for partition, member in moves.stop:
            assert self.reading.pop(partition) == member
            self.stopped[partition] = member
        for partition, member in moves.start:
            assert partition not in self.reading
            assert partition not in self.stopped
            assert member in self.members
            self.reading[partition] = member
        self.check_moves(before)

    def check_moves(self, before: dict[int, set[int]]) -> None:
        """Shares keep as much as even ones can: the largest are cut down to the largest."""
        if not self.members:
            return
        there = set(self.partitions)
        old = {member: before.get(member, set()) & there for member in self.members}
        least, more = divmod(len(self.partitions), len(self.members))
        counts = sorted((len(share) for share in old.values()), reverse=True)
        most = sum(min(count, least + (at < more)) for at, count in enumerate(counts))
        kept = sum(len(old[member] & set(self.group.share(member))) for member in self.members)
        assert kept == most

    @rule()
    def join(self) -> None:
        self.joined += 1
        self.members.append(self.joined)
        self.do("join", self.joined)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(self.members))
        self.members.remove(member)
        self.do("leave", member)

    @precondition(lambda self: self.joined)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """Also of one that has left already."""
        member = data.draw(st.integers(1, self.joined))
        if member in self.members:
            self.members.remove(member)
        for held in (self.reading, self.stopped):
            for partition in [each for each, one in held.items() if one == member]:
                del held[partition]
        self.do("crash", member)

    @precondition(lambda self: self.stopped)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        partition = data.draw(st.sampled_from(sorted(self.stopped)))
        del self.stopped[partition]
        self.do("release", partition)

    @rule(data=st.data(), added=st.integers(0, 3))
    def change(self, data: st.DataObject, added: int) -> None:
        kept = [each for each in self.partitions if data.draw(st.booleans())]
        new = range(self.next_partition, self.next_partition + added)
        self.next_partition += added
        self.partitions = [*kept, *new]
        for held in (self.reading, self.stopped):
            for partition in held.keys() - set(kept):
                del held[partition]
        self.do("change", self.partitions)

    @invariant()
    def shares_are_even_and_everything_is_shared(self) -> None:
        assert self.group.members == self.members
        shares = [self.group.share(member) for member in self.members]
        together = [partition for share in shares for partition in share]
        assert sorted(together) == (sorted(self.partitions) if self.members else [])
        assert max(map(len, shares), default=0) - min(map(len, shares), default=0) <= 1

    @invariant()
    def everybody_reads_what_is_its_own_and_free(self) -> None:
        assert not self.reading.keys() & self.stopped.keys()
        for member in self.members:
            for partition in self.group.share(member):
                assert self.reading.get(partition) == member or partition in self.stopped
        for partition, member in self.reading.items():
            assert partition in self.group.share(member)
        for partition in self.partitions:
            holder = self.reading.get(partition, self.stopped.get(partition))
            assert self.group.holder(partition) == holder
            assert self.group.is_stopping(partition) == (partition in self.stopped)


Group.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestGroup = pytest.mark.slow(Group.TestCase)
