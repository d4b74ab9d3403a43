"""What a queue does, plainly: entries in a list, and consumers in lists that turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from leporid.engine.queues.consumer import Consumer

SIDES = [0, 1]
READY, UNACKED, HELD = "ready", "unacked", "held"
RETRY_MIN_MS, RETRY_MAX_MS = 20, 50
TIMEOUT_MS = 40
LOOK_EVERY_MS = 20  # at what may be overdue
IMPATIENT = 0  # the side whose consumers time out


@dataclass(eq=False)
class Entry:
    number: int
    priority: int
    expires_ms: int | None
    momentary: bool = False  # to be gone by the end of the turn, unless it is delivered
    deliveries: int = 0
    state: str = READY
    held_until_ms: int = 0

    @property
    def delivered(self) -> bool:
        return self.deliveries > 0


@dataclass(eq=False)
class ModelConsumer:
    side: int
    tag: str
    no_ack: bool
    priority: int
    prefetch: int
    real: Consumer
    unacked: int = 0
    active: bool = True


@dataclass(eq=False)
class ModelChannel:
    limit: int = 0  # of all its consumers together
    flowing: bool = True
    last_tag: int = 0
    consumers: list[ModelConsumer] = field(default_factory=list)
    unacked: dict[int, tuple[Entry, ModelConsumer | None]] = field(default_factory=dict)
    since_ms: dict[int, int] = field(default_factory=dict)
    forgiven: set[int] = field(
        default_factory=set
    )  # tags that timed out and were not settled since

    @property
    def outstanding(self) -> int:
        return sum(consumer is not None for _, consumer in self.unacked.values())


class ModelQueue:
    """What a queue does, plainly."""

    def __init__(self, max_length: int | None, limit: int | None, retries: str) -> None:
        self.entries: list[Entry] = []  # in order of arrival; settled ones are gone
        self.rings: dict[int, list[ModelConsumer]] = {}
        self.channels = [ModelChannel(), ModelChannel()]
        self.max_length = max_length
        self.delivery_limit = limit
        self.retries = retries
        self.buried: list[tuple[str, int]] = []
        self.now_ms = 0

    def ready(self) -> list[Entry]:
        """In the order in which they leave."""
        there = [entry for entry in self.entries if entry.state == READY]
        return sorted(there, key=lambda entry: -entry.priority)

    def enter(self, consumer: ModelConsumer) -> None:
        ring = self.rings.setdefault(consumer.priority, [])
        if consumer.active and consumer not in ring:
            ring.append(consumer)

    def can_take(self, consumer: ModelConsumer) -> bool:
        channel = self.channels[consumer.side]
        if not channel.flowing:
            return False
        if consumer.no_ack:
            return True
        if consumer.prefetch and consumer.unacked >= consumer.prefetch:
            return False
        return not channel.limit or channel.outstanding < channel.limit

    def bury(self, entry: Entry, reason: str) -> None:
        self.entries.remove(entry)
        self.buried.append((reason, entry.number))

    def expire(self) -> None:
        """Order of expiry, then of arrival."""
        over = [
            entry
            for entry in self.entries
            if entry.state == READY
            and not entry.momentary
            and entry.expires_ms is not None
            and entry.expires_ms <= self.now_ms
        ]
        for entry in sorted(over, key=lambda entry: (entry.expires_ms, entry.number)):
            self.bury(entry, "expired")

    def let_go(self) -> None:
        """What was held long enough is ready, in the order in which that came."""
        over = [each for each in self.entries if each.state == HELD]
        for entry in sorted(over, key=lambda entry: (entry.held_until_ms, entry.number)):
            if entry.held_until_ms <= self.now_ms:
                entry.state = READY
                self.drop_excess()

    def come_back(self, entry: Entry, failed: bool) -> None:
        if self.delivery_limit is not None and entry.deliveries > self.delivery_limit:
            self.bury(entry, "delivery_limit")
            return
        entry.momentary = False
        entry.state = READY
        if self.retries in ("all", "failed" if failed else "returned"):
            entry.state = HELD
            held_ms = min(RETRY_MIN_MS * entry.deliveries, RETRY_MAX_MS)
            entry.held_until_ms = self.now_ms + held_ms
        self.drop_excess()

    def hand(self, side: int, entry: Entry, consumer: ModelConsumer | None, no_ack: bool) -> None:
        channel = self.channels[side]
        channel.last_tag += 1
        entry.deliveries += 1
        entry.state = UNACKED
        if no_ack:
            self.entries.remove(entry)
            return
        channel.unacked[channel.last_tag] = entry, consumer
        channel.since_ms[channel.last_tag] = self.now_ms
        if consumer is not None:
            consumer.unacked += 1

    def drop_excess(self) -> None:
        if self.max_length is None:
            return
        held = sum(entry.state == HELD for entry in self.entries)
        while (ready := self.ready()) and len(ready) + held > self.max_length:
            self.bury(ready[0], "maxlen")

    def turn(self) -> list[tuple[int, str, int, bool, int]]:
        """(side, consumer, message, redelivered, delivery tag) of each delivery."""
        self.let_go()
        self.expire()
        taken = self.deliver()
        for entry in [each for each in self.entries if each.state == READY and each.momentary]:
            self.bury(entry, "expired")
        for entry in self.entries:
            entry.momentary = False
        return taken

    def deliver(self) -> list[tuple[int, str, int, bool, int]]:
        taken = []
        while (ready := self.ready()) and any(self.rings.values()):
            ring = self.rings[max(priority for priority, ring in self.rings.items() if ring)]
            consumer = ring.pop(0)
            if not self.can_take(consumer):
                continue
            ring.append(consumer)
            entry, redelivered = ready[0], ready[0].delivered
            self.hand(consumer.side, entry, consumer, consumer.no_ack)
            tag = self.channels[consumer.side].last_tag
            taken.append((consumer.side, consumer.tag, entry.number, redelivered, tag))
        self.drop_excess()
        return taken

    def recover(self, side: int) -> list[tuple[int, str, int, bool, int]]:
        return self.give_back(side, sorted(self.channels[side].unacked), "recover")

    def give_back(
        self, side: int, tags: list[int], how: str
    ) -> list[tuple[int, str, int, bool, int]]:
        """Give back several: what was got first, then what each consumer has, in the order of their
        tags; and offer what is there before the next one's comes back. Returns what is delivered
        meanwhile."""
        taken = []
        groups: dict[str, list[int]] = {}
        for tag in tags:
            consumer = self.channels[side].unacked[tag][1]
            groups.setdefault(consumer.tag if consumer else "", []).append(tag)
        for _, group in sorted(groups.items()):
            taken += self.deliver()
            self.settle(side, group, how)
        return taken

    def time_out(self) -> None:
        """What is overdue goes back alone."""
        channel = self.channels[IMPATIENT]
        over = [
            tag
            for tag, since_ms in channel.since_ms.items()
            if since_ms + TIMEOUT_MS <= self.now_ms and channel.unacked[tag][1] is not None
        ]
        self.settle(IMPATIENT, over, "timeout")
        channel.forgiven.update(over)

    def settle(self, side: int, tags: list[int], how: str) -> None:
        channel = self.channels[side]
        for tag in tags:
            full = bool(channel.limit) and channel.outstanding >= channel.limit
            entry, consumer = channel.unacked.pop(tag)
            del channel.since_ms[tag]
            if consumer is not None:
                consumer.unacked -= 1
                for each in channel.consumers if full else [consumer]:
                    self.enter(each)
            if how in ("reject", "nack"):
                self.bury(entry, "rejected")
            elif how == "ack":
                self.entries.remove(entry)
            else:
                self.come_back(entry, failed=how in ("requeue", "close"))

    def leave(self, consumer: ModelConsumer) -> None:
        consumer.active = False
        self.channels[consumer.side].consumers.remove(consumer)
        if consumer in self.rings.get(consumer.priority, []):
            self.rings[consumer.priority].remove(consumer)
