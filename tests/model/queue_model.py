"""What a queue does, plainly: entries in a list, and consumers in lists that turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from leporid.engine.connection.consumer import Consumer

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
    zero_ttl: bool = False  # to be gone by the end of the turn, unless it is delivered
    at_once: bool = False  # it was; it expires when it comes back
    passed_by: bool = False  # it is over, and no consumer gets it
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
class ModelGroup:
    """Consumers of one channel and priority that had to wait for the channel's limit."""

    side: int
    priority: int
    belong: list[ModelConsumer] = field(default_factory=list)
    wait: list[ModelConsumer] = field(default_factory=list)


@dataclass(eq=False)
class ModelChannel:
    limit: int = 0  # of all its consumers together
    last_tag: int = 0
    consumers: list[ModelConsumer] = field(default_factory=list)
    unacked: dict[int, tuple[Entry, ModelConsumer | None]] = field(default_factory=dict)
    since_ms: dict[int, int] = field(default_factory=dict)
    late_acks: set[int] = field(
        default_factory=set
    )  # tags that timed out and were not settled since

    groups: dict[int, ModelGroup] = field(default_factory=dict)  # by priority
    waiting: list[ModelGroup] = field(default_factory=list)  # for the limit to leave room

    @property
    def outstanding(self) -> int:
        return sum(consumer is not None for _, consumer in self.unacked.values())

    @property
    def has_room(self) -> bool:
        return not self.limit or self.outstanding < self.limit

    def leaves(self, consumer: ModelConsumer) -> ModelGroup | None:
        """The consumer is gone; returns its group if it was the last of it."""
        self.consumers.remove(consumer)
        group = self.groups.get(consumer.priority)
        if group is None or consumer not in group.belong:
            return None
        group.belong.remove(consumer)
        group.wait = [each for each in group.wait if each is not consumer]
        if group.belong:
            return None
        del self.groups[consumer.priority]
        self.waiting = [each for each in self.waiting if each is not group]
        return group


class ModelQueue:
    """What a queue does, plainly."""

    def __init__(self, max_length: int | None, limit: int | None, retries: str) -> None:
        self.entries: list[Entry] = []  # in order of arrival; settled ones are gone
        self.rings: dict[int, list[ModelConsumer | ModelGroup]] = {}
        self.offers: list[ModelChannel] = []  # whose limit may leave room for those that wait
        self.offered: ModelChannel | None = None  # whose consumers may take one now
        self.offered_tag = 0
        self.channels = [ModelChannel(), ModelChannel()]
        self.max_length = max_length
        self.delivery_limit = limit
        self.retries = retries
        self.dead_lettered: list[tuple[str, int]] = []
        self.now_ms = 0
        self.paused = False

    def ready(self) -> list[Entry]:
        """In the order in which they leave."""
        there = [entry for entry in self.entries if entry.state == READY]
        return sorted(there, key=lambda entry: -entry.priority)

    def enter(self, consumer: ModelConsumer) -> None:
        """It may be able to take again, unless it waits for its channel's limit."""
        ring = self.rings.setdefault(consumer.priority, [])
        if consumer.active and consumer not in ring and self.waits_with(consumer) is None:
            ring.append(consumer)

    def waits_with(self, consumer: ModelConsumer) -> ModelGroup | None:
        group = self.channels[consumer.side].groups.get(consumer.priority)
        return group if group is not None and consumer in group.wait else None

    def resume(self, channel: ModelChannel) -> None:
        """The channel flows again."""
        for consumer in channel.consumers:
            self.enter(consumer)
            group = self.waits_with(consumer)
            if group is None or group in channel.waiting:
                continue
            if group not in self.rings[group.priority]:
                self.rings[group.priority].append(group)
        self.freed(channel)

    def could_take(self, consumer: ModelConsumer) -> bool:
        """Whether its channel and its own prefetch let it take."""
        return not consumer.prefetch or consumer.no_ack or consumer.unacked < consumer.prefetch

    def can_take(self, consumer: ModelConsumer) -> bool:
        """Whether nothing keeps it from taking but others whose turn it is."""
        return self.could_take(consumer) and self.channels[consumer.side].has_room

    def may_take(self, channel: ModelChannel, priority: int) -> bool:
        """Whether the limit leaves room, and nobody waits for it who is to have it first."""
        if not channel.limit or not channel.waiting:
            return channel.has_room
        is_offered = self.offered is channel and self.offered_tag == channel.last_tag
        highest = max(group.priority for group in channel.waiting)
        return channel.has_room and is_offered and highest <= priority

    def asked(self, consumer: ModelConsumer) -> bool:
        """Whether it takes; else it stands in its ring no more, and may wait for the limit."""
        channel = self.channels[consumer.side]
        if not self.could_take(consumer):
            return False
        if self.may_take(channel, consumer.priority):
            return True
        group = channel.groups.setdefault(
            consumer.priority, ModelGroup(consumer.side, consumer.priority)
        )
        if consumer not in group.belong:
            group.belong.append(consumer)
        group.wait.append(consumer)
        if group not in self.rings[group.priority] and group not in channel.waiting:
            channel.waiting.append(group)
        return False

    def replace(self, group: ModelGroup, ring: list[ModelConsumer | ModelGroup]) -> None:
        """Who has waited longest stands where the group stood, and the group last."""
        channel = self.channels[group.side]
        if not group.wait:
            return
        if not self.may_take(channel, group.priority):
            channel.waiting.append(group)
            return
        ring.insert(0, group.wait.pop(0))
        if group.wait:
            ring.append(group)

    def limit(self, channel: ModelChannel, limit: int) -> None:
        channel.limit = limit
        if limit:
            self.freed(channel)
            return
        for group in channel.waiting:
            if group.wait:
                self.rings.setdefault(group.priority, []).append(group)
        channel.waiting = []

    def freed(self, channel: ModelChannel) -> None:
        if channel.waiting and channel.has_room and channel not in self.offers:
            self.offers.append(channel)

    def offer(self) -> list[tuple[int, str, int, bool, int]]:
        """Those that wait take one each in turn, the highest priority first."""
        taken = []
        offers, self.offers = self.offers, []
        for channel in offers:
            while channel.waiting and channel.has_room:
                self.offered, self.offered_tag = channel, channel.last_tag
                group = max(channel.waiting, key=lambda group: group.priority)
                channel.waiting.remove(group)
                if group.wait:
                    self.rings.setdefault(group.priority, []).append(group)
                    taken += self.deliver()
            self.offered = None
        return taken

    def dead_letter(self, entry: Entry, reason: str) -> None:
        self.entries.remove(entry)
        self.dead_lettered.append((reason, entry.number))

    def expire(self) -> None:
        """Order of expiry, then of arrival."""
        over = [entry for entry in self.entries if self.is_due(entry, self.now_ms)]
        for entry in sorted(over, key=lambda entry: (entry.expires_ms, entry.number)):
            self.dead_letter(entry, "expired")

    def is_due(self, entry: Entry, now_ms: int) -> bool:
        expires_ms = None if entry.zero_ttl else entry.expires_ms
        return entry.state == READY and expires_ms is not None and expires_ms <= now_ms

    def first_living(self) -> Entry | None:
        """What is over on the way to it is left to `expire`, even if the queue is too long."""
        for entry in self.ready():
            if not self.is_due(entry, self.now_ms - 1):
                return entry
            entry.passed_by = True
        return None

    def let_go(self) -> None:
        """What was held long enough is ready, in the order in which that came."""
        over = [each for each in self.entries if each.state == HELD]
        for entry in sorted(over, key=lambda entry: (entry.held_until_ms, entry.number)):
            if entry.held_until_ms <= self.now_ms:
                self.make_ready(entry)
                self.drop_excess()

    def come_back(self, entry: Entry, failed: bool) -> None:
        if self.delivery_limit is not None and entry.deliveries > self.delivery_limit:
            self.dead_letter(entry, "delivery_limit")
            return
        if self.retries in ("all", "failed" if failed else "returned"):
            entry.state = HELD
            held_ms = min(RETRY_MIN_MS * entry.deliveries, RETRY_MAX_MS)
            entry.held_until_ms = self.now_ms + held_ms
        else:
            self.make_ready(entry)
        self.drop_excess()

    def make_ready(self, entry: Entry) -> None:
        entry.state = READY
        if entry.at_once:
            entry.at_once, entry.expires_ms = False, self.now_ms - 1

    def hand(self, side: int, entry: Entry, consumer: ModelConsumer | None, no_ack: bool) -> None:
        channel = self.channels[side]
        channel.last_tag += 1
        entry.deliveries += 1
        entry.state = UNACKED
        entry.at_once, entry.zero_ttl = entry.at_once or entry.zero_ttl, False
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
        while len(ready := self.ready()) + held > self.max_length:
            left = [entry for entry in ready if not entry.passed_by]
            if not left:
                break
            self.dead_letter(left[0], "maxlen")

    def turn(self) -> list[tuple[int, str, int, bool, int]]:
        """(side, consumer, message, redelivered, delivery tag) of each delivery."""
        self.let_go()
        self.expire()
        taken = self.offer() + self.deliver()
        for entry in [each for each in self.entries if each.state == READY and each.zero_ttl]:
            self.dead_letter(entry, "expired")
        for entry in self.entries:
            entry.zero_ttl = False
        return taken

    def deliver(self) -> list[tuple[int, str, int, bool, int]]:
        taken = []
        while not self.paused and self.ready() and any(self.rings.values()):
            ring = self.rings[max(priority for priority, ring in self.rings.items() if ring)]
            consumer = ring.pop(0)
            if isinstance(consumer, ModelGroup):
                self.replace(consumer, ring)
                continue
            if not self.asked(consumer):
                continue
            entry = self.first_living()
            if entry is None:
                ring.insert(0, consumer)
                break
            ring.append(consumer)
            redelivered = entry.delivered
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
            taken += self.offer() + self.deliver()
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
        channel.late_acks.update(over)

    def settle(self, side: int, tags: list[int], how: str) -> None:
        channel = self.channels[side]
        for tag in tags:
            entry, consumer = channel.unacked.pop(tag)
            del channel.since_ms[tag]
            if consumer is not None:
                consumer.unacked -= 1
                self.freed(channel)
                self.enter(consumer)
            if how in ("reject", "nack"):
                self.dead_letter(entry, "rejected")
            elif how == "ack":
                self.entries.remove(entry)
            else:
                self.come_back(entry, failed=how in ("requeue", "close"))

    def leave(self, consumer: ModelConsumer) -> None:
        consumer.active = False
        group = self.channels[consumer.side].leaves(consumer)
        ring = self.rings.get(consumer.priority, [])
        ring[:] = [each for each in ring if each is not consumer and each is not group]

    def starving(self) -> list[str]:
        """Who could take while there is something to take, and was not asked."""
        return [
            consumer.tag
            for channel in self.channels
            for consumer in channel.consumers
            if not self.paused and self.ready() and self.can_take(consumer)
        ]
