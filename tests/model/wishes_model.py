"""What a queue with filtered consumers does, plainly: who may have what is looked up every time.

Whose turn it is, is not the model's to say: it is told what was delivered, and says whether that
was right, and whether somebody was left without what he could have had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.model.queue_model import Entry, ModelConsumer, ModelQueue

from leporid.engine.filter import Filter
from leporid.engine.selector import Selector
from leporid.engine.tags import Tags
from leporid.filters.compiler import program

# One delivery: channel, consumer, message, redelivered, delivery tag.
Delivery = tuple[int, str, int, bool, int]


@dataclass(eq=False)
class FilteredEntry(Entry):
    group: int = 0


@dataclass(eq=False)
class FilteredConsumer(ModelConsumer):
    wants: str = "everything"


def selector(text: str) -> Selector:
    return Selector(program(text).code)


# By name: the filter, made anew, and what it says of a group.
WANTS: dict[str, tuple[Callable[[], Filter | None], Callable[[int], bool]]] = {
    "everything": (lambda: None, lambda group: True),
    "zero": (lambda: selector("g = 0"), lambda group: group == 0),
    "small": (lambda: selector("g < 2"), lambda group: group < 2),
    "large": (lambda: selector("g BETWEEN 1 AND 3"), lambda group: group >= 1),
    "all": (lambda: selector("g >= 0"), lambda group: True),
    "none": (lambda: selector("g = 99 OR h LIKE 'x%'"), lambda group: False),
    "tags": (lambda: Tags([b"t1", b"t2"]), lambda group: group in (1, 2)),
}


class WishesModel(ModelQueue):
    """As `ModelQueue`, but that it is told who got what.

    Args:
        hurried: a turn may end before filters have looked at everything, and others had theirs.
    """

    def __init__(
        self, max_length: int | None, limit: int | None, retries: str, single: bool, hurried: bool
    ) -> None:
        super().__init__(max_length, limit, retries)
        self.single = single
        self.hurried = hurried
        self.everybody: list[FilteredConsumer] = []
        self.chosen: FilteredConsumer | None = None
        self.observed: list[Delivery] = []

    def attach(self, consumer: FilteredConsumer) -> None:
        self.channels[consumer.side].consumers.append(consumer)
        self.everybody.append(consumer)
        if self.chosen is None:
            self.chosen = max(self.everybody, key=lambda each: each.priority)

    def leave(self, consumer: ModelConsumer) -> None:
        assert isinstance(consumer, FilteredConsumer)
        super().leave(consumer)
        self.everybody.remove(consumer)
        if self.chosen is consumer:
            self.chosen = max(self.everybody, key=lambda each: each.priority, default=None)

    def enter(self, consumer: ModelConsumer) -> None:
        """Nobody need tell this model who may take again."""

    def wanted(self, consumer: FilteredConsumer) -> list[Entry]:
        passes = WANTS[consumer.wants][1]
        return [
            entry
            for entry in self.ready()
            if isinstance(entry, FilteredEntry) and passes(entry.group)
        ]

    def able(self) -> list[FilteredConsumer]:
        """Who may have something now."""
        found = [
            consumer
            for consumer in self.everybody
            if self.can_take(consumer)
            and self.wanted(consumer)
            and (not self.single or consumer is self.chosen)
        ]
        if self.hurried:
            return found
        highest = max((consumer.priority for consumer in found), default=0)
        return [consumer for consumer in found if consumer.priority == highest]

    def deliver(self) -> list[Delivery]:
        since: dict[str, Counter[str]] = {}  # by wish that may have something: whose turn it was
        while able := self.able():
            assert self.observed, f"{[each.tag for each in able]} could have more"
            side, tag, number, redelivered, delivery_tag = self.observed.pop(0)
            consumer = next(each for each in self.everybody if each.tag == tag)
            assert consumer in able
            entry = self.wanted(consumer)[0]
            assert (consumer.side, entry.number, entry.delivered) == (side, number, redelivered)
            since = {each.wants: since.get(each.wants, Counter()) for each in able}
            for wants, others in since.items():
                others[consumer.wants] += 1
                if wants == consumer.wants:
                    others.clear()
                assert self.hurried or all(count <= 2 for count in others.values()), (
                    f"{wants} had no turn"
                )
            self.hand(side, entry, consumer, consumer.no_ack)
            assert delivery_tag == self.channels[side].last_tag
        self.drop_excess()
        return []
