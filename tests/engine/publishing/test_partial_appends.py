"""Messages to many streams or queues: all get their records, in as many slices as that takes."""

from __future__ import annotations

from random import Random

import pytest
from tests.engine.frames import (
    PERSISTENT,
    Confirm,
    Returned,
    longstr,
    properties,
    publish,
    table,
)
from tests.engine.session_fake import Peer
from tests.engine.slices import cut_often, steps_of, turns

from leporid.amqp.errors import PreconditionFailed

STREAMS = 200


@pytest.fixture
def streams(engine, disk, peer):
    """The streams of an exchange `fan`, in front of the durable queue `q`."""
    made = [engine.stream(number, f"s{number}") for number in range(1, STREAMS + 1)]
    peer.queues["q"] = engine.queue(STREAMS + 1, "q", True)
    peer.session.caches["fan"] = engine.route_cache(
        "fan", lambda _key, _raw: [*made, peer.queues["q"]], True
    )
    return made


def appended(streams) -> int:
    return sum(stream.next_offset for stream in streams)


def to_fan(body: bytes, **more) -> bytes:
    return publish(1, "k", body, exchange="fan", raw=PERSISTENT, **more)


def bodies_of(engine, stream) -> list[bytes]:
    reader = Peer(engine, {})
    reader.channel.consume_stream(stream, "r", 60000, 0)
    for _ in turns(engine):
        pass
    return [event.body for event in reader.deliveries()]


def settle(engine, disk) -> None:
    engine.clock.monotonic_ns = None
    engine.run()
    disk.sync(engine)
    engine.run()


def test_a_message_is_appended_to_many_streams_in_several_turns(engine, disk, peer, streams):
    cut_often(engine, units=8)
    peer.feed(to_fan(b"m"), publish(1, "q", b"next", raw=PERSISTENT))
    assert 0 < appended(streams) < STREAMS
    assert peer.queues["q"].ready_count == 0
    assert max(steps_of(engine, lambda: appended(streams))) <= 3 * 8
    assert appended(streams) == STREAMS
    settle(engine, disk)
    assert [bodies_of(engine, stream) for stream in streams] == [[b"m"]] * STREAMS
    assert peer.drain(peer.queues["q"]) == [b"m", b"next"]


def test_a_body_counts_as_what_it_takes_to_copy_it(engine, peer, streams):
    """Units are those of messages without one; each KiB here is half of that."""
    cut_often(engine, units=64)
    body = bytes(100_000)
    peer.feed(to_fan(body))
    assert max(steps_of(engine, lambda: appended(streams))) <= 3
    assert appended(streams) == STREAMS


def test_a_confirm_waits_for_the_last_stream(engine, disk, peer, streams):
    peer.channel.select_confirm()
    cut_often(engine, units=8)
    peer.feed(to_fan(b"m"))
    for _ in turns(engine):
        disk.sync(engine)
        if appended(streams) < STREAMS:
            assert peer.events(run=False) == []
    settle(engine, disk)
    assert [event for event in peer.events() if isinstance(event, Confirm)] == [
        Confirm(1, 1, False)
    ]
    assert all(stream.end == 1 for stream in streams)


@pytest.mark.parametrize("step", [None, 1])
def test_a_message_that_some_streams_have_goes_on_while_an_alarm_is_on(
    engine, disk, peer, streams, step
):
    """Its publisher is blocked by the next one."""
    data = to_fan(b"message", step=step)
    peer.feed(data[:-9])
    cut_often(engine, units=8)
    peer.feed(data[-9:], publish(1, "q", b"next", raw=PERSISTENT))
    assert 0 < appended(streams) < STREAMS
    engine.connections.publishers_blocked = True
    settle(engine, disk)
    assert appended(streams) == STREAMS
    assert peer.drain(peer.queues["q"]) == [b"message"]
    assert peer.connection.blocked
    engine.connections.publishers_blocked = False
    peer.connection.unblock()
    settle(engine, disk)
    assert peer.drain(peer.queues["q"]) == [b"next"]


def test_a_stream_that_is_deleted_meanwhile_gets_nothing_more(engine, disk, peer, streams):
    """Nor do others lose the message by it, the last one included."""
    peer.queues["q"].retire()
    cut_often(engine, units=8)
    peer.feed(to_fan(b"m", mandatory=True))
    there = appended(streams)
    assert 0 < there < STREAMS
    for stream in streams[-10:]:
        stream.retire()
    settle(engine, disk)
    assert appended(streams) == STREAMS - 10
    assert [event for event in peer.events() if isinstance(event, Returned)] == []


def test_a_queue_that_is_deleted_meanwhile_gets_nothing(engine, disk, peer, streams):
    cut_often(engine, units=8)
    peer.feed(to_fan(b"m"))
    peer.queues["q"].retire()
    settle(engine, disk)
    assert appended(streams) == STREAMS


@pytest.mark.parametrize("step", [None, 1])
@pytest.mark.parametrize("lost", [False, True])
def test_who_goes_meanwhile_publishes_no_more(engine, disk, peer, streams, step, lost):
    cut_often(engine, units=8)
    peer.feed(to_fan(b"mm", step=step))
    there = appended(streams)
    assert 0 < there < STREAMS
    if lost:
        peer.connection.lost()
    else:
        peer.session.on_fault(1, PreconditionFailed("no"))
    settle(engine, disk)
    assert appended(streams) == there
    assert peer.queues["q"].ready_count == 0


def test_rights_that_change_meanwhile_are_those_of_the_next_message(engine, disk, peer, streams):
    cut_often(engine, units=8)
    peer.feed(to_fan(b"m"))
    peer.channel.forget_exchange()
    settle(engine, disk)
    assert appended(streams) == STREAMS
    assert peer.queues["q"].ready_count == 1


def test_a_route_that_changes_meanwhile_is_that_of_the_next_message(engine, disk, peer, streams):
    cut_often(engine, units=8)
    peer.feed(to_fan(b"m"))
    peer.session.caches["fan"].forget()
    more = engine.stream(STREAMS + 2, "more")
    streams.append(more)
    settle(engine, disk)
    assert appended(streams) == STREAMS
    peer.feed(to_fan(b"n"))
    settle(engine, disk)
    assert bodies_of(engine, more) == [b"n"]
    assert bodies_of(engine, streams[0]) == [b"m", b"n"]


def test_two_publishers_keep_their_orders(engine, disk, peer, streams):
    other = Peer(engine, peer.queues)
    other.session.caches["fan"] = peer.session.caches["fan"]
    cut_often(engine, units=8)
    peer.feed(*(to_fan(b"a%d" % number) for number in range(5)))
    other.feed(*(to_fan(b"b%d" % number) for number in range(5)))
    settle(engine, disk)
    for stream in streams[::50]:
        found = bodies_of(engine, stream)
        assert [each for each in found if each[:1] == b"a"] == [b"a%d" % at for at in range(5)]
        assert [each for each in found if each[:1] == b"b"] == [b"b%d" % at for at in range(5)]


def test_a_message_waits_for_dead_letters_and_is_in_no_stream_twice(engine, disk, peer, streams):
    """Of a full queue of its route, to which nobody publishes before they are made."""
    queue = peer.queues["q"]
    queue.set_limits(max_length=0, overflow="reject-publish-dlx")
    letters = []

    def dead_letters(reason, exchange, key, raw, body):
        for _ in range(30):
            yield
        letters.append(body)

    queue.dead_letters = dead_letters
    cut_often(engine, units=8)
    peer.feed(to_fan(b"m"), to_fan(b"n"))
    settle(engine, disk)
    assert appended(streams) == 2 * STREAMS
    assert letters == [b"m", b"n"]


VAST = 7 * 2**20 + 1


def test_a_vast_body_is_copied_for_one_stream_after_the_other(engine, disk, peer):
    """Not for all of them before the first has it."""
    made = [engine.stream(number, f"s{number}") for number in range(1, 5)]
    queue = engine.queue(9, "q", True)
    peer.session.caches["fan"] = engine.route_cache("fan", lambda _key, _raw: [*made, queue], True)
    body = Random(1).randbytes(VAST)
    data = to_fan(body, step=100_000)
    peer.feed(data[:-100_008])
    cut_often(engine)
    peer.feed(data[-100_008:])
    found = steps_of(engine, lambda: appended(made))
    assert max(found) <= 1
    assert len(found) > 4 * VAST // 2**21
    settle(engine, disk)
    for stream in made:
        assert bodies_of(engine, stream) == [body]
    assert peer.drain(queue) == [body]


def test_a_transaction_is_appended_to_streams_in_several_turns(engine, disk, peer, streams):
    peer.channel.select_tx()
    peer.feed(to_fan(b"1"), to_fan(b"2"), publish(1, "q", b"3", raw=PERSISTENT))
    assert appended(streams) == 0
    cut_often(engine, units=8)
    steps = []
    before = 0
    more = True
    while more:
        more = peer.channel.append_to_streams()
        steps.append(appended(streams) - before)
        before += steps[-1]
    assert before == 2 * STREAMS
    assert max(steps) <= 3 * 8
    assert peer.queues["q"].ready_count == 0
    engine.clock.monotonic_ns = None
    assert peer.channel.commit()
    settle(engine, disk)
    assert appended(streams) == 2 * STREAMS
    assert bodies_of(engine, streams[-1]) == [b"1", b"2"]
    assert peer.drain(peer.queues["q"]) == [b"1", b"2", b"3"]


def test_a_transaction_that_is_rolled_back_or_left_is_begun_anew(engine, disk, peer, streams):
    """What a stream has got of it stays there."""
    peer.channel.select_tx()
    peer.feed(to_fan(b"1"))
    cut_often(engine, units=8)
    assert peer.channel.append_to_streams()
    there = appended(streams)
    engine.clock.monotonic_ns = None
    peer.channel.rollback()
    peer.feed(to_fan(b"2"))
    assert not peer.channel.append_to_streams()
    assert peer.channel.commit()
    settle(engine, disk)
    assert appended(streams) == there + STREAMS
    assert bodies_of(engine, streams[-1]) == [b"2"]


def test_a_mandatory_message_of_a_transaction_to_streams_alone_is_routed(engine, disk, peer):
    made = [engine.stream(number, f"s{number}") for number in (1, 2, 3)]
    peer.session.caches["fan"] = engine.route_cache("fan", lambda _key, _raw: made, True)
    peer.channel.select_tx()
    peer.feed(to_fan(b"m", mandatory=True))
    while peer.channel.append_to_streams():
        pass
    assert peer.channel.commit()
    settle(engine, disk)
    assert [event for event in peer.events() if isinstance(event, Returned)] == []
    assert [stream.end for stream in made] == [1, 1, 1]


@pytest.mark.parametrize("count", [1, 3])
def test_a_mandatory_message_of_a_transaction_whose_streams_are_gone_is_returned(
    engine, disk, peer, count
):
    """As one to queues that were deleted before the commit."""
    made = [engine.stream(number, f"s{number}") for number in range(1, count + 1)]
    peer.session.caches["fan"] = engine.route_cache("fan", lambda _key, _raw: made, True)
    peer.channel.select_tx()
    peer.feed(to_fan(b"m", mandatory=True), to_fan(b"n", mandatory=True))
    for stream in made:
        stream.retire()
    while peer.channel.append_to_streams():
        pass
    peer.channel.commit()
    settle(engine, disk)
    assert [event.body for event in peer.events() if isinstance(event, Returned)] == [b"m", b"n"]


def test_a_mandatory_message_all_of_whose_streams_are_deleted_first_is_returned(
    engine, disk, peer, streams
):
    """Its dead letters are waited for; a confirm says the same of it."""
    peer.queues["q"].retire()
    peer.channel.select_confirm()
    cut_often(engine, units=8)
    peer.feed(to_fan(b"m", mandatory=True))
    assert 0 < appended(streams) < STREAMS
    for stream in streams:
        stream.retire()
    settle(engine, disk)
    assert [type(event) for event in peer.events()] == [Confirm]


# ------------------------------------------------------------------ many queues

QUEUES = 300
# A record is for so many queues, when the clock is read after one unit.
PART = 32


@pytest.fixture
def queues(engine, peer):
    """The queues of an exchange `wide`, every second one durable, and all in `peer.queues`."""
    made = [engine.queue(number, f"q{number}", bool(number % 2)) for number in range(1, QUEUES + 1)]
    peer.session.caches["wide"] = engine.route_cache("wide", lambda _key, _raw: made, True)
    peer.queues |= {queue.name: queue for queue in made}
    return made


def to_wide(body: bytes, **more) -> bytes:
    return publish(1, "k", body, exchange="wide", **{"raw": PERSISTENT, **more})


def ready(queues) -> int:
    return sum(queue.ready_count for queue in queues)


def begun(engine, queues) -> int:
    """Go on until the first queues have the message; returns how many."""
    for _ in turns(engine):
        if ready(queues):
            break
    assert 0 < ready(queues) < QUEUES
    return ready(queues)


@pytest.mark.parametrize("raw", [b"\0\0", PERSISTENT])
def test_a_message_gets_to_many_queues_in_several_turns(engine, disk, peer, queues, raw):
    cut_often(engine, units=1)
    published = engine.queues.published
    peer.feed(to_wide(b"m", raw=raw), publish(1, queues[0].name, b"next", raw=raw))
    assert max(steps_of(engine, lambda: ready(queues))) <= 3 * PART
    assert ready(queues) == QUEUES + 1
    assert engine.queues.published == published + 2
    assert engine.publishing.received == 2
    settle(engine, disk)
    assert [peer.drain(queue) for queue in queues[1:]] == [[b"m"]] * (QUEUES - 1)
    assert peer.drain(queues[0]) == [b"m", b"next"]


@pytest.mark.parametrize(("size", "records"), [(0, 10), (16 * 100, 3), (16 * QUEUES, 1)])
def test_a_larger_body_has_fewer_copies(engine, peer, queues, size, records):
    """A body takes no more of a record than its queues do."""
    cut_often(engine, units=1)
    before = engine.logs.transient.appended
    peer.feed(to_wide(bytes(size), raw=b"\0\0"))
    for _ in turns(engine):
        pass
    assert ready(queues) == QUEUES
    assert engine.logs.transient.appended == before + records


def test_a_confirm_waits_for_the_last_queue(engine, disk, peer, queues):
    peer.channel.select_confirm()
    cut_often(engine, units=1)
    peer.feed(to_wide(b"m"))
    for _ in turns(engine):
        disk.sync(engine)
        if ready(queues) < QUEUES:
            assert peer.events(run=False) == []
    settle(engine, disk)
    assert peer.events() == [Confirm(1, 1, False)]


@pytest.mark.parametrize("full", [0, QUEUES - 1])
def test_a_full_queue_in_any_part_refuses_the_message(engine, disk, peer, queues, full):
    """With basic.nack; the others have it, as in RabbitMQ."""
    queues[full].set_limits(max_length=0, overflow="reject-publish")
    peer.channel.select_confirm()
    cut_often(engine, units=1)
    peer.feed(to_wide(b"m"))
    settle(engine, disk)
    assert ready(queues) == QUEUES - 1
    assert [event for event in peer.events() if isinstance(event, Confirm)] == [
        Confirm(1, 1, False, refused=True)
    ]


def test_full_queues_that_dead_letter_do_so_part_by_part(engine, disk, peer, queues):
    letters = []

    def dead_letters(name):
        def made(_reason, _exchange, _key, _raw, body):
            for _ in range(30):
                yield
            letters.append((name, body, ready(queues)))

        return made

    full = queues[::PART]
    for queue in full:
        queue.set_limits(max_length=0, overflow="reject-publish-dlx")
        queue.dead_letters = dead_letters(queue.name)
    cut_often(engine, units=1)
    peer.feed(to_wide(b"m"), to_wide(b"n"))
    for _ in turns(engine):
        pass
    # Each is made before the next part gets the message: it may go to these queues, too.
    had = [min(QUEUES, at * PART) - at for at in range(1, len(full) + 1)]
    assert letters == [
        (queue.name, body, before + count)
        for body, before in ((b"m", 0), (b"n", QUEUES - len(full)))
        for queue, count in zip(full, had, strict=True)
    ]
    assert ready(queues) == 2 * (QUEUES - len(full))


def test_queues_that_are_deleted_meanwhile_get_nothing_more(engine, disk, peer, queues):
    """Nor is the message returned: others have it."""
    peer.channel.select_confirm()
    cut_often(engine, units=1)
    peer.feed(to_wide(b"m", mandatory=True))
    there = begun(engine, queues)
    published = engine.queues.published
    for queue in queues[there:]:
        queue.retire()
    settle(engine, disk)
    assert (ready(queues[:there]), ready(queues[there:])) == (there, 0)
    assert [type(event) for event in peer.events()] == [Confirm]
    assert engine.queues.published == published + 1


@pytest.mark.parametrize("durable", [range(100), range(200, QUEUES)])
def test_all_records_are_durable_if_one_queue_is(engine, disk, peer, durable):
    """And the confirm waits for the disk, whichever part is the last."""
    made = [engine.queue(at + 1, f"q{at}", at in durable) for at in range(QUEUES)]
    peer.session.caches["wide"] = engine.route_cache("wide", lambda _key, _raw: made, True)
    peer.channel.select_confirm()
    cut_often(engine, units=1)
    before = engine.logs.durable.appended
    peer.feed(to_wide(b"m"))
    for _ in turns(engine):
        pass
    assert ready(made) == QUEUES
    assert engine.logs.durable.appended == before + 10
    assert peer.events() == []
    settle(engine, disk)
    assert peer.events() == [Confirm(1, 1, False)]


def test_a_confirm_waits_for_the_disk_although_nothing_is_left_for_the_last_part(
    engine, disk, peer, queues
):
    peer.channel.select_confirm()
    cut_often(engine, units=1)
    peer.feed(to_wide(b"m"))
    there = begun(engine, queues)
    for queue in queues[there:]:
        queue.retire()
    for _ in turns(engine):
        pass
    assert peer.events() == []
    settle(engine, disk)
    assert peer.events() == [Confirm(1, 1, False)]


def test_a_duplicate_everywhere_is_not_returned(engine, disk, peer):
    """Nor if nothing is left for the last part."""
    made = [engine.unique_queue(at + 1, f"q{at}", False) for at in range(QUEUES)]
    peer.session.caches["wide"] = engine.route_cache("wide", lambda _key, _raw: made, True)
    raw = properties(headers=table(**{"x-deduplication-header": longstr("same")}))
    peer.feed(to_wide(b"m", raw=raw))
    for queue in made[-PART:]:
        queue.retire()
    cut_often(engine, units=1)
    peer.feed(to_wide(b"n", raw=raw, mandatory=True))
    settle(engine, disk)
    assert peer.events() == []
    assert peer.channel.duplicates == 1


@pytest.mark.parametrize("consumed", [0, QUEUES - 1])
def test_a_long_backlog_in_any_part_slows_the_publisher(engine, peer, queues, consumed):
    reader = Peer(engine, peer.queues)
    reader.channel.consume(queues[consumed], "c", False, 0, 1)
    for _ in range(20_000):
        engine.publish([queues[consumed]], "", "q", b"\0\0", b"")
    engine.run()
    cut_often(engine, units=1)
    peer.feed(to_wide(b"m"))
    for _ in turns(engine):
        pass
    assert len(peer.connection.read_view()) == 4096


def test_who_goes_meanwhile_gives_it_to_no_more_queues(engine, disk, peer, queues):
    cut_often(engine, units=1)
    peer.feed(to_wide(b"m"))
    there = begun(engine, queues)
    peer.connection.lost()
    settle(engine, disk)
    assert ready(queues) == there


def test_a_transaction_gives_a_message_to_many_queues_at_once(engine, disk, peer, queues):
    """After a crash all of it is there, or nothing."""
    peer.channel.select_tx()
    peer.feed(to_wide(b"m"))
    cut_often(engine, units=1)
    while peer.channel.append_to_streams():
        pass
    assert ready(queues) == 0
    assert peer.channel.commit()
    assert ready(queues) == QUEUES
