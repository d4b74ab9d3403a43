"""Named readers go on where they were, whichever way they ended."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from tests.broker.engine_fake import FakeReader
from tests.broker.peer import Peer, World
from tests.broker.recording import Recording, drops, puts

from leporid.amqp.errors import NotFound, PreconditionFailed
from leporid.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicQos,
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    QueueDeclare,
    QueueDelete,
)
from leporid.amqp.tables import ByteArray, Int32, LongString, Value, encode_table
from leporid.broker.stored import StoredQueue, StoredReaderOffset, StoredReaderProgress
from leporid.broker.stream import readers
from leporid.broker.vhost import VirtualHost
from leporid.durable import Drop, Put, each_of

TITLE = "queue 's' in vhost '/'"


@pytest.fixture
def world() -> World:
    """A world with a stream of ten messages."""
    world = World()
    arguments: dict[str, Value] = {"x-queue-type": "stream"}
    world.peer().call(QueueDeclare(queue="s", durable=True, arguments=arguments))
    for number in range(10):
        world.stream("s").push(f"m{number}")
    world.changes.clear()
    return world


def vhost_of(world: World) -> VirtualHost:
    return world.broker.vhosts["/"]


def consume(
    world: World, peer: Peer | None = None, reader: Value = "r", offset: Value = None
) -> tuple[Peer, FakeReader]:
    """Consume as a named reader, with a prefetch count of 4."""
    peer = peer or world.peer()
    peer.call(BasicQos(prefetch_count=4))
    arguments = {"x-reader": reader}
    if offset is not None:
        arguments["x-stream-offset"] = offset
    peer.call(BasicConsume(queue="s", consumer_tag="t", arguments=arguments))
    found = world.stream("s").consumers[-1]
    assert isinstance(found, FakeReader)
    return peer, found


def put(offset: int, reader: str = "r") -> Put:
    return Put(StoredReaderOffset("/", "s", reader, offset))


def stored(world: World) -> list[Put | Drop]:
    """What is recorded of offsets; who read up to them is beside it."""
    return [
        each
        for each in each_of(world.changes)
        if (each.kind if isinstance(each, Drop) else type(each.definition)) is StoredReaderOffset
    ]


def test_a_new_name_begins_with_what_comes(world: World):
    _, reader = consume(world)
    assert reader.offset == 10
    assert world.changes == []


def test_acks_are_stored_when_it_is_time_to(world: World):
    _, reader = consume(world, offset="first")
    world.broker.save_reader_offsets()
    assert world.changes == []
    reader.ack()
    reader.ack()
    assert world.changes == []
    world.broker.save_reader_offsets()
    world.broker.save_reader_offsets()
    assert stored(world) == [put(1)]
    # In front of the second is one that is not settled.
    reader.unacked.remove(3)
    world.broker.save_reader_offsets()
    assert stored(world) == [put(1)]
    reader.ack()
    world.broker.save_reader_offsets()
    assert stored(world) == [put(1), put(3)]
    assert vhost_of(world).reader_offsets("s") == {"r": 3}


@pytest.mark.parametrize(
    "end",
    [
        lambda peer: peer.call(BasicCancel("t")),
        lambda peer: peer.call(ChannelClose(200, "", 0, 0)),
        lambda peer: peer.say(ConnectionClose(200, "", 0, 0), 0),
        lambda peer: peer.session.on_lost(),
        lambda peer: peer.refused(BasicConsume(queue="none")),
    ],
    ids=["cancel", "channel", "connection", "lost", "fault"],
)
def test_it_goes_on_where_it_was(world: World, end: Callable[[Peer], object]):
    peer, reader = consume(world, offset=2)
    reader.ack(3)
    end(peer)
    assert put(4) in world.changes
    _, reader = consume(world)
    assert (reader.unacked, reader.offset) == ([5, 6, 7, 8], 9)
    # Whoever says where to begin is heard.
    _, reader = consume(world, offset="first")
    assert reader.unacked == [0, 1, 2, 3]


def test_what_is_settled_after_cancel_is_stored_too(world: World):
    peer, reader = consume(world, offset="first")
    reader.ack()
    peer.call(BasicCancel("t"))
    reader.ack()
    world.broker.save_reader_offsets()
    reader.ack()
    peer.call(ChannelClose(200, "", 0, 0))
    reader.ack()
    world.broker.save_reader_offsets()
    assert stored(world) == [put(0), put(1), put(2)]


def test_cancel_ok_waits_until_the_offset_is_on_disk(world: World):
    peer, reader = consume(world, offset="first")
    reader.ack()
    before = len(peer.connection.events)
    assert peer.call(BasicCancel("t")) == BasicCancelOk("t")
    assert peer.connection.events[before:] == ["hold 1", "basic.cancel-ok"]


def test_ended_readers_that_settled_everything_are_not_followed_any_more(world: World):
    peer = world.peer()
    for number in range(3):
        _, reader = consume(world, peer, offset=number)
        peer.call(BasicCancel("t"))
        reader.ack(4)
    consume(world, peer)
    # The last is followed until the next begins, and this one.
    assert repr(vhost_of(world).offset_tracking) == "<OffsetTracking open=1>"
    world.broker.save_reader_offsets()
    peer.session.on_lost()
    assert repr(vhost_of(world).offset_tracking) == "<OffsetTracking open=0>"


def test_who_reads_the_same_name_next_sees_what_the_first_has_acked(world: World):
    _, first = consume(world, offset="first")
    first.ack(2)
    _, second = consume(world)
    assert second.unacked == [2, 3, 4, 5]


def test_offsets_are_set_and_dropped_by_name(world: World):
    vhost = vhost_of(world)
    vhost.set_reader_offset("s", "r", 6)
    vhost.set_reader_offset("s", "r", 6)
    vhost.set_reader_offset("s", "other", 0)
    assert vhost.reader_offsets("s") == {"r": 6, "other": 0}
    _, reader = consume(world)
    assert reader.unacked == [7, 8, 9]
    assert vhost.drop_reader_offset("s", "other")
    assert not vhost.drop_reader_offset("s", "other")
    drop = Drop(StoredReaderOffset, ("/", "s", "other"))
    assert stored(world) == [put(6), put(0, "other"), drop]


def test_a_reader_that_has_read_nothing_begins_at_offset_0(world: World):
    vhost_of(world).set_reader_offset("s", "r", -1)
    _, reader = consume(world)
    assert reader.unacked == [0, 1, 2, 3]


def test_who_a_reader_is_is_known_as_long_as_it_is_one(world: World):
    queue = vhost_of(world).stream("s")
    _, reader = consume(world, offset="first")
    now_ms = world.engine.clock.wall_ms
    assert queue.reader_progress == {"r": readers.Progress("guest", now_ms)}
    reader.ack()
    assert vhost_of(world).reader_offsets("s") == {"r": 0}
    assert queue.reader_progress == {"r": readers.Progress("guest", now_ms, now_ms)}
    vhost_of(world).drop_reader_offset("s", "r")
    assert queue.reader_progress == {}


def test_who_a_reader_is_is_recorded_with_its_offset_and_when_another_one_reads(world: World):
    """And not at each look: a reader that stands still costs nothing."""
    clock = world.engine.clock
    begun_ms = clock.wall_ms
    _, reader = consume(world, offset="first")
    assert puts(world.changes, StoredReaderProgress) == []
    clock.wall_ms += 5
    reader.ack()
    for _ in range(2):
        world.broker.save_reader_offsets()
    first = StoredReaderProgress("/", "s", "r", "guest", begun_ms, begun_ms + 5)
    assert puts(world.changes, StoredReaderProgress) == [first]
    vhost_of(world).set_reader_offset("s", "r", 0, "ann")
    second = StoredReaderProgress("/", "s", "r", "ann", begun_ms + 5, begun_ms + 5)
    assert puts(world.changes, StoredReaderProgress) == [first, second]
    again, recording = World(), Recording(["/"], world.changes)
    recording.put(StoredQueue(1, "/", "s", False, encode_table({"x-queue-type": "stream"})))
    again.broker.restore(recording.snapshot())
    progress = readers.Progress("ann", begun_ms + 5, begun_ms + 5)
    assert vhost_of(again).stream("s").reader_progress == {"r": progress}
    vhost_of(world).drop_reader_offset("s", "r")
    assert drops(world.changes, StoredReaderProgress) == [("/", "s", "r")]


def test_nothing_is_kept_of_a_consumer_that_never_stored_an_offset(world: World):
    """Or a client that makes up a new name each time would fill the memory."""
    queue = vhost_of(world).stream("s")
    channel, _ = consume(world)
    assert list(queue.reader_progress) == ["r"]
    channel.call(BasicCancel(consumer_tag="t"))
    world.broker.save_reader_offsets()
    assert queue.reader_progress == {}


def test_what_can_be_no_reader(world: World):
    vhost = vhost_of(world)
    for offset in (-2, 2**63):
        with pytest.raises(PreconditionFailed, match="invalid offset"):
            vhost.set_reader_offset("s", "r", offset)
    for name in ("", "x" * 256):
        with pytest.raises(PreconditionFailed, match="expected 1 to 255 bytes of text"):
            vhost.set_reader_offset("s", name, 1)
    world.peer().call(QueueDeclare(queue="q"))
    for name, why in (("q", ": it is a queue"), ("none", "$")):
        with pytest.raises(NotFound, match=f"no stream '{name}' in vhost '/'{why}"):
            vhost.reader_offsets(name)
        with pytest.raises(NotFound):
            vhost.set_reader_offset(name, "r", 1)
        with pytest.raises(NotFound):
            vhost.drop_reader_offset(name, "r")


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("", '"expected 1 to 255 bytes of text"'),
        ("ü" * 128, '"expected 1 to 255 bytes of text"'),
        (Int32(5), "{unacceptable_type,signedint}"),
        (ByteArray(b"r"), "{unacceptable_type,binary}"),
        (None, "{unacceptable_type,void}"),
    ],
)
def test_a_name_is_text(world: World, value: Value, wrong: str):
    text = world.peer().refused(BasicConsume(queue="s", arguments={"x-reader": value}))
    assert text == f"PRECONDITION_FAILED - invalid arg 'x-reader' for {TITLE}: {wrong}"


def test_octets_that_are_no_text_still_make_a_name(world: World):
    peer, reader = consume(world, reader=LongString(b"\xff"), offset="first")
    reader.ack()
    peer.session.on_lost()
    assert vhost_of(world).reader_offsets("s") == {"\N{REPLACEMENT CHARACTER}": 0}


def test_other_queues_keep_the_argument_without_effect(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="q"))
    peer.call(BasicConsume(queue="q", arguments={"x-reader": 5}))
    peer.session.on_lost()
    assert world.changes == []


def test_a_stream_has_so_many_readers_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(readers, "READERS_MAX", 2)
    vhost = vhost_of(world)
    for name in ("a", "b"):
        vhost.set_reader_offset("s", name, 1)
    vhost.set_reader_offset("s", "b", 2)
    with pytest.raises(PreconditionFailed, match="has 2 stored offsets of readers"):
        vhost.set_reader_offset("s", "c", 1)
    peer = world.peer()
    peer.call(BasicQos(prefetch_count=1))
    text = peer.refused(BasicConsume(queue="s", arguments={"x-reader": "c"}))
    assert text.endswith("drop some, or use a name that is among them")
    consume(world, reader="a")


def test_offsets_go_with_their_stream_and_come_back_with_it(world: World):
    peer, reader = consume(world, offset="first")
    reader.ack()
    vhost_of(world).set_reader_offset("s", "other", 5)
    peer.call(ChannelOpen(), 2)
    peer.say(QueueDelete(queue="s"), 2)
    assert drops(world.changes[-3:], StoredReaderProgress) == [("/", "s", "other")]
    assert world.changes[-2] == Drop(StoredReaderOffset, ("/", "s", "other"))
    assert drops([world.changes[-1]], StoredQueue)
    reader.ack()
    count = len(world.changes)
    peer.session.on_lost()
    assert len(world.changes) == count


def test_offsets_are_back_after_a_restart():
    world = World()
    arguments: dict[str, Value] = {"x-queue-type": "stream"}
    world.peer().call(QueueDeclare(queue="s", durable=True, arguments=arguments))
    vhost_of(world).set_reader_offset("s", "r", 5)
    vhost_of(world).set_reader_offset("s", "gone", 5)
    vhost_of(world).drop_reader_offset("s", "gone")
    recording = Recording(["/", "other"], world.changes)
    again = World()
    again.broker.restore(recording.snapshot())
    assert vhost_of(again).reader_offsets("s") == {"r": 5}
    # One that belongs to nothing is left out.
    recording.put(StoredReaderOffset("/", "none", "r", 1))
    World().broker.restore(recording.snapshot())


# ------------------------------------------------------------------ what retention dropped


BECAUSE = ": retention dropped what it had not read"


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]


def test_a_reader_that_is_skipped_is_counted_and_logged_once(
    world: World, caplog: pytest.LogCaptureFixture
):
    _, reader = consume(world, offset="first")
    for _ in range(5):
        world.stream("s").push("more")
    world.stream("s").drop_before(6)
    assert vhost_of(world).skipped_messages("s", "r") == 2
    assert logged(caplog) == [f"{TITLE}: reader 'r' was skipped from offset 4 to 6{BECAUSE}"]
    world.stream("s").drop_before(9)
    assert vhost_of(world).skipped_messages("s", "r") == 5
    assert len(logged(caplog)) == 1
    # What it was sent before is its own to settle; then the offset moves past what it missed.
    world.broker.save_reader_offsets()
    assert world.changes == []
    reader.ack(4)
    world.broker.save_reader_offsets()
    assert stored(world) == [put(reader.settled_offset - 1)]


def test_a_reader_that_comes_back_too_late_is_told(world: World, caplog: pytest.LogCaptureFixture):
    vhost_of(world).set_reader_offset("s", "r", 1)
    world.stream("s").drop_before(7)
    assert vhost_of(world).skipped_messages("s", "r") == 0
    _, reader = consume(world)
    assert (reader.unreported, reader.skipped) == (5, 5)
    assert vhost_of(world).skipped_messages("s", "r") == 5
    assert len(logged(caplog)) == 1


def test_what_its_last_consumer_was_not_told_the_next_one_is(world: World):
    peer, _ = consume(world, offset="first")
    world.stream("s").drop_before(6)
    world.broker.save_reader_offsets()
    vhost_of(world).set_reader_offset("s", "r", 5)
    peer.session.on_lost()
    _, reader = consume(world)
    assert (reader.unreported, reader.skipped) == (2, 0)
    assert vhost_of(world).skipped_messages("s", "r") == 2


def test_what_was_with_a_consumer_that_is_lost_is_told_too(world: World):
    peer, reader = consume(world, offset="first")
    for _ in range(5):
        world.stream("s").push("more")
    reader.ack(1)
    world.broker.save_reader_offsets()
    world.stream("s").drop_before(8)
    peer.session.on_lost()
    _, reader = consume(world)
    assert reader.unreported == 7
    assert vhost_of(world).skipped_messages("s", "r") == 7


def test_what_a_delivery_told_of_is_not_told_of_again(world: World):
    peer, reader = consume(world, offset="first")
    for _ in range(5):
        world.stream("s").push("more")
    reader.ack(1)
    world.broker.save_reader_offsets()
    world.stream("s").drop_before(8)
    reader.unreported = 0  # a delivery told of 4 to 7
    world.stream("s").drop_before(10)
    peer.session.on_lost()
    peer, reader = consume(world)
    # 8 and 9, and 1 to 3 that were lost with the consumer.
    assert (reader.unreported, vhost_of(world).skipped_messages("s", "r")) == (5, 9)
    peer.session.on_lost()
    peer, reader = consume(world)
    assert (reader.unreported, vhost_of(world).skipped_messages("s", "r")) == (5, 9)
    reader.unreported = 0
    peer.session.on_lost()
    assert consume(world)[1].unreported == 0


def test_what_two_consumers_of_one_name_missed_the_next_is_told_once(world: World):
    first, _ = consume(world, offset="first")
    second, _ = consume(world, offset="first")
    world.stream("s").drop_before(6)
    vhost_of(world).set_reader_offset("s", "r", 5)
    first.session.on_lost()
    second.session.on_lost()
    _, reader = consume(world)
    assert (reader.unreported, vhost_of(world).skipped_messages("s", "r")) == (2, 2)


def test_a_consumer_that_ends_before_its_skip_is_counted_is_counted_once(world: World):
    """There was no time for all of them, and the one that is left reads on."""
    peer, reader = consume(world, offset="first")
    reader.ack(4)
    world.broker.save_reader_offsets()
    queue = vhost_of(world).stream("s")
    _, other = consume(world, reader="other", offset="first")
    skips: Any = [(other, 8, 9), (reader, 8, 9)]
    steps = vhost_of(world).offset_tracking.skip(queue, skips)
    next(steps)
    reader.note_skipped(1)
    peer.session.on_lost()
    assert vhost_of(world).skipped_messages("s", "r") == 1
    assert list(steps) == [None]
    assert vhost_of(world).skipped_messages("s", "r") == 1
    _, reader = consume(world)
    assert reader.unreported == 1


def test_a_consumer_without_a_name_is_logged(world: World, caplog: pytest.LogCaptureFixture):
    peer = world.peer()
    peer.call(BasicQos(prefetch_count=4))
    arguments: dict[str, Value] = {"x-stream-offset": "first"}
    peer.call(BasicConsume(queue="s", consumer_tag="t", arguments=arguments))
    world.stream("s").drop_before(6)
    assert logged(caplog) == [f"{TITLE}: consumer 't' was skipped from offset 4 to 6{BECAUSE}"]


def test_a_reader_that_is_dropped_has_missed_nothing(world: World):
    consume(world, offset="first")
    world.stream("s").drop_before(6)
    vhost_of(world).drop_reader_offset("s", "r")
    assert vhost_of(world).skipped_messages("s", "r") == 0


def test_very_many_readers_are_stored_in_steps(world: World):
    count = 40
    found = [consume(world, reader=f"r{number}", offset="first")[1] for number in range(count)]
    for reader in found:
        reader.ack()
    world.cut_everywhere()
    world.engine.jobs.start(world.broker.saving_reader_offsets())
    counts = [len(stored(world))]
    while world.engine.jobs.waiting:
        world.turn()
        counts.append(len(stored(world)))
    assert counts[-1] == count
    assert max(after - before for before, after in pairwise(counts)) <= 2


def test_very_many_readers_end_with_their_channel_in_steps(world: World):
    count = 40
    peer = world.peer()
    peer.call(BasicQos(prefetch_count=4))
    for number in range(count):
        arguments: dict[str, Value] = {"x-reader": f"r{number}", "x-stream-offset": "first"}
        peer.call(BasicConsume(queue="s", consumer_tag=f"t{number}", arguments=arguments))
    tracking = vhost_of(world).offset_tracking

    def left() -> int:
        return int(repr(tracking).removesuffix(">").rpartition("=")[2])

    assert left() == count
    world.cut_everywhere()
    peer.say(ChannelClose(200, "", 0, 0))
    counts = [left()]
    while world.engine.jobs.waiting:
        world.turn()
        counts.append(left())
    assert counts[-1] == 0
    assert max(before - after for before, after in pairwise(counts)) <= 2


def test_who_consumes_as_a_reader_goes_on_where_its_last_consumer_is_and_saves_no_other(
    world: World,
):
    for number in range(30):
        consume(world, reader=f"r{number}", offset="first")[1].ack()
    _, other = consume(world, reader="r7")
    assert other.wanted == 1
    assert stored(world) == [put(0, "r7")]


def test_readers_that_have_ended_are_forgotten_while_others_come(world: World):
    peer = world.peer()
    peer.call(BasicQos(prefetch_count=4))
    ended: list[FakeReader] = []
    for number in range(20):
        arguments: dict[str, Value] = {"x-reader": f"r{number}", "x-stream-offset": "first"}
        peer.call(BasicConsume(queue="s", consumer_tag="t", arguments=arguments))
        found = world.stream("s").consumers[-1]
        assert isinstance(found, FakeReader)
        ended.append(found)
        peer.call(BasicCancel("t"))
    assert all(each.unacked for each in ended)
    for each in ended:
        while each.unacked:
            each.ack()
    tracking = vhost_of(world).offset_tracking
    for number in range(25):
        arguments = {"x-reader": f"n{number}", "x-stream-offset": "first"}
        peer.call(BasicConsume(queue="s", consumer_tag=f"n{number}", arguments=arguments))
    assert repr(tracking) == "<OffsetTracking open=25>"
