"""One member of a group on a disk, through restarts: a stream, what is retried, dead letters."""

from __future__ import annotations

from tests.engine.disk_fake import Disk, Files, recover
from tests.engine.frames import Delivery, publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.stream_world import offset_of

from leporid.broker.group.group_retries import count_of, stamped
from leporid.engine.connection.group_retries import GroupRetries
from leporid.engine.connection.stream_consumer import StreamConsumer
from leporid.engine.engine import Engine
from leporid.engine.stream.choice import Choice
from leporid.engine.stream.replay import StreamReplay
from leporid.engine.stream.stream import Stream

STREAM, RETRIES, DEAD = 7, 9, 10
DURABLE = b"\x10\x00\x02"
GRACE_MS = 100
COUNT = b"x-delivery-countl"


def count_in(raw: bytes) -> int:
    """How often a delivery says it came back."""
    at = raw.find(COUNT)
    return 0 if at < 0 else int.from_bytes(raw[at + len(COUNT) :][:8], "big")


class GroupWorld:
    """A group without a broker: what `members` and `readers` do is done here in a few lines."""

    def __init__(
        self,
        *,
        limit: int | None = 3,
        min_ms: int = 1000,
        max_ms: int = 2500,
        letters: bool = True,
        prefetch: int = 4,
    ) -> None:
        self.options = limit, min_ms, max_ms, letters
        self.prefetch = prefetch
        self.disk = Disk()
        self.stored = 0  # the offset that the definitions have
        self.reasons: list[tuple[str, bytes]] = []
        engine = make_engine()
        self.disk.attach(engine)
        self.declare(engine)
        self.open(engine)

    def declare(self, engine: Engine) -> None:
        limit, min_ms, max_ms, letters = self.options
        self.stream: Stream = engine.stream(STREAM, "s")
        self.dead = engine.queue(DEAD, "dead", True)
        self.retries: GroupRetries = engine.group_retries(RETRIES, "retries")
        self.retries.set_stamps(stamped, count_of)
        self.retries.set_delivery_limit(limit, True)
        self.retries.set_retries("all", min_ms, max_ms)
        if letters:
            self.retries.dead_letters = self.dead_letter

    def dead_letter(
        self, reason: str, exchange: str, key: str, properties: bytes, body: bytes
    ) -> None:
        self.reasons.append((reason, body))
        self.engine.publish([self.dead], exchange, key, properties, body)

    def open(self, engine: Engine) -> None:
        self.engine = engine
        self.publisher = Peer(engine, {"s": self.stream})
        self.join()

    def join(self, choice: Choice | None = None) -> None:
        """Have a new member, which begins where the one before was."""
        self.peer = Peer(self.engine, {})
        credit = self.peer.channel.credit(self.prefetch)
        self.reader: StreamConsumer = self.peer.channel.consume_stream(
            self.stream, "t", 0, self.stored, choice, credit
        )
        self.reader.retries = self.retries
        self.retries.choice = choice
        self.retrying = self.peer.channel.consume_retries(self.retries, "t", credit)

    def leave(self) -> None:
        """End the member with its channel, in order."""
        channel = self.peer.channel
        channel.cancel(self.retrying)
        self.reader.withdraw_rejects()
        channel.cancel(self.reader)
        self.reader.keep_returned()
        self.store(ends=True)
        channel.drop_unsettled(self.reader)
        self.peer.connection.close_channel(1)

    def store(self, *, ends: bool = False) -> int:
        """Note the offset where the next one begins, and in the definitions when that may be."""
        settled = self.reader.settled_offset
        if ends:
            # What is in the memory of the broker goes on; a crash has what was stored.
            self.sync()
        if self.reader.kept_generation <= self.engine.logs.synced:
            self.stored = max(self.stored, settled)
        return settled

    def send(self, *bodies: bytes, raw: bytes = DURABLE) -> None:
        for body in bodies:
            self.publisher.feed(publish(1, "s", body, raw=raw))
        self.sync()

    def sync(self) -> None:
        self.disk.sync(self.engine)
        self.engine.run()

    def wait(self, ms: int) -> None:
        self.engine.clock.now_ms += ms
        self.engine.clock.wall_ms += ms
        self.engine.run()

    def came(self) -> list[Delivery]:
        return self.peer.deliveries()

    def crash(self) -> None:
        """What was not synced is gone."""
        wall_ms = self.engine.clock.wall_ms
        self.disk = self.disk.copy()

        def declare(engine: Engine) -> None:
            engine.clock.wall_ms = wall_ms
            self.declare(engine)
            replay = StreamReplay(self.stream)
            files = self.disk.streams.get(STREAM, Files())
            for number in sorted(files):
                replay.segment(number, files[number])
            replay.finish(False)

        engine, _, _ = recover(self.disk, declare)
        self.open(engine)


def facts(delivery: Delivery) -> tuple[bytes, int, int, bool]:
    """The body, the offset, how often it came back, and whether it is marked redelivered."""
    return delivery.body, offset_of(delivery.raw), count_in(delivery.raw), delivery.redelivered
