"""Whatever consumers of a stream do, it stays near its limits, and they know what they missed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.frames import ack, publish
from tests.engine.session_fake import Peer
from tests.engine.stream_world import World, offset_of, skipped_in
from tests.engine.tagged import of_tags, raw_of

from leporid.engine.connection.judged_stream_consumer import JudgedStreamConsumer
from leporid.engine.connection.stream_consumer import StreamConsumer
from leporid.filterserver import frames
from leporid.filterserver.message import messages_of

SEGMENT = 4096
LIMIT = 3 * SEGMENT
AGE_MS = 60_000
# What facts of syncs add between two looks at the size.
FACTS = 1000


class Reading:
    """A connection with one consumer, and all that it was sent."""

    def __init__(self, world: World, kind: str, start: int, prefetch: int) -> None:
        self.world = world
        self.kind = kind
        self.got: list[int] = []
        self.reported = 0
        self.skipped: set[int] = set()
        self.asked: list[int] = []
        self.peer = Peer(world.engine, {"s": world.stream})
        self.reader: StreamConsumer = self.peer.channel.consume_stream(
            world.stream,
            "r",
            prefetch,
            start,
            of_tags(b"a") if kind == "tags" else None,
            filter_class="C" if kind == "class" else None,
        )
        # What retention dropped before is no skip: it is not there to begin with.
        self.start = max(start, world.stream.first)

    def wants(self, offset: int) -> bool:
        return self.kind == "all" or offset % 3 == 0

    def turn(self) -> None:
        for event in self.peer.deliveries():
            offset = offset_of(event.raw)
            assert event.body.startswith(b"%d." % offset)
            assert self.wants(offset)
            assert offset not in self.skipped
            self.reported += skipped_in(event.raw)
            assert self.reported == len([each for each in self.skipped if each < offset])
            self.got.append(offset)

    def ask(self) -> None:
        if isinstance(self.reader, JudgedStreamConsumer) and not self.asked:
            batch = self.reader.batch(7, 2**20)
            if batch is not None:
                messages = messages_of(batch[0][frames.HEAD.size :])
                self.asked = [int(each.body.partition(b".")[0]) for each in messages]

    def judge(self) -> None:
        if isinstance(self.reader, JudgedStreamConsumer) and self.asked:
            self.reader.judged(bytes(self.wants(offset) for offset in self.asked))
            self.asked = []

    def give_back(self) -> None:
        if isinstance(self.reader, JudgedStreamConsumer):
            self.reader.give_back()
            self.asked = []

    def ack(self) -> None:
        if self.reader.unacked_count:
            self.peer.feed(ack(1, 0, multiple=True))

    def end(self) -> None:
        self.turn()
        self.peer.channel.cancel(self.reader)

    def check(self) -> None:
        """It got all that it wanted up to where it is, in order, but for what it was skipped."""
        upto = self.reader.offset
        assert upto >= self.world.stream.first
        wanted = [each for each in range(self.start, upto) if self.wants(each)]
        assert self.got == [each for each in wanted if each not in self.skipped]
        assert self.reader.skipped == len(self.skipped)


def publish_all(world: World, first: int, sizes: list[int]) -> None:
    for number, size in enumerate(sizes, first):
        raw = raw_of({"x-tag": "b" if number % 3 else "a"})
        world.peer.feed(publish(1, "s", b"%d." % number + bytes(size), raw=raw))


def pass_time(world: World, passed_ms: int) -> None:
    world.engine.clock.now_ms += passed_ms
    world.engine.clock.wall_ms += passed_ms


STEPS = ("send", "send", "send", "turn", "ack", "time", "begin", "end", "ask", "judge", "give_back")


@settings(max_examples=80)
@given(st.data())
def test_streams_stay_near_their_limits_and_consumers_know_what_they_missed(data):
    by_age = data.draw(st.booleans())
    percent = data.draw(st.sampled_from((10, 50, 100)))
    limits = {"max_age_ms": AGE_MS} if by_age else {"max_bytes": LIMIT}
    world = World(segment_bytes=SEGMENT, **limits)
    world.engine.streams.set_hold(percent)
    hold = LIMIT + LIMIT * percent // 100
    readings: dict[StreamConsumer, Reading] = {}
    sent = before = 0

    def skip(skips: list[tuple[StreamConsumer, int, int]]) -> None:
        assert by_age or before > hold
        for reader, start, end in skips:
            missed = set(range(start, end))
            assert not missed & readings[reader].skipped
            readings[reader].skipped |= missed

    world.stream.on_skipped = skip
    for _ in range(data.draw(st.integers(1, 40))):
        step = data.draw(st.sampled_from(STEPS))
        if step == "send":
            sizes = data.draw(st.lists(st.sampled_from((0, 100, 500)), min_size=1, max_size=30))
            publish_all(world, sent, sizes)
            sent += len(sizes)
        elif step == "time":
            pass_time(world, data.draw(st.sampled_from((1000, AGE_MS // 3, 2 * AGE_MS))))
        elif step == "begin":
            kind = data.draw(st.sampled_from(("all", "tags", "class")))
            start = data.draw(st.integers(0, sent + 5))
            one = Reading(world, kind, start, data.draw(st.integers(1, 40)))
            readings[one.reader] = one
        elif readings:
            one = data.draw(st.sampled_from(list(readings.values())))
            if step == "end":
                one.end()
                del readings[one.reader]
            else:
                getattr(one, step)()
        before = world.stream.bytes + FACTS
        world.sync()
        for one in readings.values():
            one.turn()
            one.check()
    before = world.stream.bytes + FACTS
    pass_time(world, 1000)
    world.engine.run()
    assert by_age or world.stream.bytes <= hold + 2 * SEGMENT
    first, found = world.stream.first, world.read()
    assert sorted(found) == list(range(first, sent))
    world.sync()
    world.restart()
    assert (world.stream.first, world.read()) == (first, found)
