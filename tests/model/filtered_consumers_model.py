"""What a queue with filtered consumers does, plainly: who may have what is looked up every time.

Whose turn it is, is not the model's to say: it is told what was delivered, and says whether that
was right, and whether somebody was left without what he could have had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.model.queue_model import Entry, ModelConsumer, ModelQueue

from leporid.engine.selectors.filter import ClassFilter, Filter
from leporid.engine.selectors.selector import Selector
from leporid.engine.selectors.tags import Tags
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
    "text": (lambda: selector("h LIKE '%a%b'"), lambda group: True),
    "small text": (lambda: selector("h LIKE '%a%ab' AND g < 2"), lambda group: group < 2),
    "no text": (lambda: selector("h LIKE '%a%x' OR g = 99"), lambda group: False),
    "tags": (lambda: Tags([b"t1", b"t2"]), lambda group: group in (1, 2)),
}

# The same of those that ask a filter class: its name, and what it is asked about.
CLASSES: dict[str, tuple[str, str]] = {
    "judged": ("judge", "everything"),
    "judged small": ("judge", "small"),
    "judged text": ("judge", "small text"),
    "judged tags": ("judge", "tags"),
    "judged none": ("judge", "none"),
    "other": ("other", "everything"),
}


def filter_of(wants: str) -> Filter | None:
    """The engine's, made anew."""
    if wants in CLASSES:
        name, first = CLASSES[wants]
        return ClassFilter(name, WANTS[first][0]())
    return WANTS[wants][0]()


class FilteredConsumersModel(ModelQueue):
    """As `ModelQueue`, but that it is told who got what.

    Args:
        hurried: a turn may end before filters have looked at everything, and others had theirs.

    Attributes:
        passes: of which groups messages pass each filter class.
        judged: whether every verdict has come, so that those who ask a class have all there is.
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
        self.passes: dict[str, set[int]] = {"judge": {0, 1}, "other": {1, 3}}
        self.judged = self.cut_short = False

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

    def is_wanted(self, wants: str, group: int) -> bool:
        if wants in CLASSES:
            name, first = CLASSES[wants]
            return WANTS[first][1](group) and group in self.passes[name]
        return WANTS[wants][1](group)

    def wanted(self, consumer: FilteredConsumer) -> list[Entry]:
        """What it could have; what came back too late is left to `expire`."""
        return [
            entry
            for entry in self.ready()
            if isinstance(entry, FilteredEntry)
            and self.is_wanted(consumer.wants, entry.group)
            and not self.is_due(entry, self.now_ms - 1)
        ]

    def next_for(self, consumer: FilteredConsumer) -> list[int]:
        """What may be delivered now: one message, or of each priority one if a class is asked."""
        found = self.wanted(consumer)
        if consumer.wants not in CLASSES:
            return [found[0].number]
        firsts = {entry.priority: entry.number for entry in reversed(found)}
        return list(firsts.values())

    def able(self) -> list[FilteredConsumer]:
        """Who may have something now; those who ask a class may have to wait for it."""
        found = [
            consumer
            for consumer in self.everybody
            if self.can_take(consumer)
            and self.wanted(consumer)
            and (not self.single or consumer is self.chosen)
        ]
        if self.hurried:
            return found
        return [each for each in found if not any(self.precedes(one, each) for one in found)]

    def precedes(self, one: FilteredConsumer, other: FilteredConsumer) -> bool:
        """Whether it has a higher priority, and no limit of another channel to wait for.

        Channels with room for more in the same turn are served one after another.
        """
        waits = one.side != other.side and self.channels[one.side].limit > 0
        return one.priority > other.priority and self.must_have(one) and not waits

    def must_have(self, consumer: FilteredConsumer) -> bool:
        return not self.cut_short and (self.judged or consumer.wants not in CLASSES)

    def give_back(self, side: int, tags: list[int], how: str) -> list[Delivery]:
        # Turns between them may have ended early, or it is not known in which of them who had to
        # wait for a verdict had something.
        self.cut_short = self.hurried or any(each.wants in CLASSES for each in self.everybody)
        found = super().give_back(side, tags, how)
        self.cut_short = False
        return found

    def deliver(self) -> list[Delivery]:
        since: dict[str, Counter[str]] = {}  # by group that may have a message: whose turn it was
        while able := self.able():
            left = [each.tag for each in able if self.must_have(each)]
            if not self.observed:
                assert not left, f"{left} could have more"
                break
            side, tag, number, redelivered, delivery_tag = self.observed[0]
            consumer = next(each for each in self.everybody if each.tag == tag)
            if not left and consumer not in able:
                break  # it was delivered later, when more had come back
            assert consumer in able
            del self.observed[0]
            assert number in self.next_for(consumer)
            entry = next(each for each in self.entries if each.number == number)
            assert (consumer.side, entry.delivered) == (side, redelivered)
            highest = max((each.priority for each in able if self.must_have(each)), default=None)
            # Those under a limit of their channel take turns for that, too.
            must = {
                each.wants
                for each in able
                if each.wants not in CLASSES
                and each.priority == highest
                and not self.channels[each.side].limit
            }
            since = {wants: since.get(wants, Counter()) for wants in must}
            for wants, others in since.items():
                if consumer.priority == highest and consumer.wants not in CLASSES:
                    others[consumer.wants] += 1
                if wants == consumer.wants:
                    others.clear()
                assert (
                    self.hurried or self.cut_short or all(count <= 2 for count in others.values())
                ), f"{wants} had no turn"
            self.hand(side, entry, consumer, consumer.no_ack)
            assert delivery_tag == self.channels[side].last_tag
        self.drop_excess()
        return []
