"""Output: frames of the size that was agreed, sent in any pieces."""

from dataclasses import replace

import pytest
from tests.engine import frames
from tests.engine.frames import frames_of, publish
from tests.engine.session_fake import Peer

from leporid.amqp.properties import decode_properties
from leporid.amqp.values import type_name
from leporid.engine.bounds.accounts import Account


@pytest.mark.parametrize("frame_max", [4096, 8192, 131072])
@pytest.mark.parametrize("excess", [-1, 0, 1])
@pytest.mark.parametrize("times", [1, 2, 5])
def test_bodies_are_split_at_frame_max(engine, queue, peer, frame_max, excess, times):
    size = (frame_max - 8) * times + excess
    peer.feed(publish(1, "q", b"\xce" * size, step=100_000))
    reader = Peer(engine, frame_max=frame_max)
    assert reader.channel.get(queue, True)
    output = frames_of(reader.take())
    assert [frame.kind for frame in output[:2]] == [frames.METHOD, frames.CONTENT_HEADER]
    sizes = [len(frame.payload) for frame in output[2:]]
    assert sum(sizes) == size
    assert sizes[:-1] == [frame_max - 8] * (len(sizes) - 1)
    assert 0 < sizes[-1] <= frame_max - 8


def test_an_empty_body_has_no_frame(engine, queue, peer):
    peer.feed(publish(1, "q"))
    assert peer.channel.get(queue, True)
    assert len(frames_of(peer.take())) == 2


@pytest.mark.parametrize("step", [1, 7, 100, 5000])
def test_output_may_be_sent_in_pieces_while_more_comes(engine, queue, peer, step):
    reader = Peer(engine)
    reader.channel.consume(queue, "c", True, 0, 0)
    sent = b""
    for number in range(60):
        peer.feed(publish(1, "q", b"%d;" % number + bytes(300)))
        engine.run()
        view = reader.connection.output.outgoing()
        assert view is not None
        part = bytes(view[:step])
        view.release()
        reader.connection.sent(len(part))
        sent += part
    assert reader.connection.output.pending_bytes > 0 or step >= 5000
    sent += reader.take()
    deliveries = frames.events_of(sent)
    bodies = [each.body for each in deliveries if isinstance(each, frames.Delivery)]
    assert [int(body.partition(b";")[0]) for body in bodies] == list(range(60))
    assert reader.connection.output.pending_bytes == 0
    assert reader.connection.output.outgoing() is None


def test_output_larger_than_any_buffer(engine, queue, peer):
    engine.connections.message_bytes_max = 5_000_000
    body = bytes(range(256)) * 12_000
    peer.feed(publish(1, "q", body, step=130_000) * 2)
    for _ in range(2):
        got = peer.get(queue)
        assert got is not None
        assert got.body == body
    assert peer.connection.output.pending_bytes == 0


def test_when_something_was_last_sent(engine, peer):
    peer.connection.send(1, b"1234")
    engine.clock.now_ms = 7777
    peer.take()
    assert peer.connection.output.last_sent_ms == 7777
    assert engine.connections.sent_bytes == 12


def test_many_connections_share_what_buffers_there_are(engine, queue, peer):
    readers = [Peer(engine) for _ in range(40)]
    for _ in range(3):
        for reader in readers:
            peer.feed(publish(1, "q", b"x" * 1000))
            assert reader.channel.get(queue, True)
        for number, reader in enumerate(readers):
            assert len(reader.take()) > 1000, number


# ------------------------------------------------------------------ the header of the count


def count_of(raw: bytes) -> int:
    """The header x-delivery-count, which must be there once; a 64-bit number, as RabbitMQ's."""
    headers = decode_properties(raw).headers
    assert headers is not None
    assert raw.count(b"\x10x-delivery-count") == 1
    count = headers["x-delivery-count"]
    assert isinstance(count, int)
    assert type_name(count) == "long"
    return count


@pytest.mark.parametrize("fetched", [False, True])
@pytest.mark.parametrize(
    "raw",
    [
        frames.NO_PROPERTIES,
        frames.PERSISTENT,
        frames.properties(headers=frames.table()),
        frames.properties(headers=frames.table(a=b"t\x01", b=b"V"), message_id="m", priority=3),
        frames.properties(headers=frames.table(**{"x-delivery-count": b"V", "b": b"V"})),
    ],
)
def test_deliveries_say_how_often_they_came_back(engine, queue, peer, raw, fetched):
    queue.set_delivery_limit(None, True)
    peer.feed(publish(1, "q", b"body", raw=raw))
    if not fetched:
        peer.channel.consume(queue, "c", False, 0, 1)
    expected = decode_properties(raw)
    for count in range(3):
        if fetched:
            found = peer.get(queue, no_ack=False)
        else:
            (found,) = peer.deliveries()
        assert (found.body, found.redelivered) == (b"body", count > 0)
        peer.feed(frames.nack(1, found.tag))
        if not count and not fetched:  # nothing is said, and nothing changed
            assert found.raw == raw
            continue
        assert count_of(found.raw) == count
        others = dict(expected.headers or {})
        others["x-delivery-count"] = count
        assert decode_properties(found.raw) == replace(expected, headers=others)


def test_what_is_stored_is_not_changed(queue, peer, dead_letters):
    raw = frames.properties(headers=frames.table(a=b"V"))
    queue.set_delivery_limit(0, True)
    peer.feed(publish(1, "q", b"x", raw=raw))
    peer.get(queue, no_ack=False)
    peer.feed(frames.nack(1, 1))
    assert dead_letters.found == [("delivery_limit", "", "q", raw, b"x")]


# ------------------------------------------------------------- who pays for what is not read


def of_user(engine, user):
    peer = Peer(engine)
    peer.connection.account.move(user)
    return peer


def test_output_is_charged_until_it_is_sent(engine, queue, peer):
    user = Account("user 'u'", 10**6)
    reader = of_user(engine, user)
    peer.feed(publish(1, "q", bytes(10_000)) * 5)
    reader.channel.consume(queue, "c", True, 0, 0)
    engine.run()
    pending = reader.connection.output.pending_bytes
    assert pending > 50_000
    assert user.bytes >= pending
    assert len(reader.take()) == pending
    assert user.bytes == 0


def test_who_keeps_too_much_in_outputs_gets_little_at_a_time_and_all_in_the_end(
    engine, queue, peer
):
    user = Account("user 'u'", 400_000)
    never = of_user(engine, user)
    peer.feed(publish(1, "q", bytes(10_000)) * 200)
    never.channel.consume(queue, "c", True, 0, 0)
    engine.run()
    held = never.connection.output.pending_bytes
    assert user.bytes > 100_000
    readers = [of_user(engine, user) for _ in range(5)]
    for each in readers:
        each.channel.consume(queue, "c", True, 0, 0)
    engine.run()
    assert never.connection.output.pending_bytes == held
    kept = [each.connection.output for each in readers]
    assert all(0 < each.pending_bytes < 15_000 for each in kept)
    assert all(each.memory_bytes < 20_000 for each in kept)
    # Others are not concerned, and readers that read get everything.
    other = of_user(engine, Account("user 'o'", 10**6))
    other.channel.consume(queue, "c", True, 0, 0)
    while queue.ready_count:
        engine.run()
        taken = [each.take() for each in (*readers, other)]
        assert any(taken)


def test_who_keeps_too_much_and_reads_no_answers_is_not_read(engine, peer):
    user = Account("user 'u'", 50_000)
    asking = of_user(engine, user)
    user.add(60_000)
    assert asking.connection.reading
    for _ in range(3):
        asking.connection.send(1, bytes(2000))
    assert not asking.connection.reading
    asking.take()
    assert asking.connection.reading
    for _ in range(3):
        peer.connection.send(1, bytes(2000))
    assert peer.connection.reading


def test_what_the_output_of_a_closed_account_gives_back_counts_nowhere(engine):
    user = Account("user 'u'", 50_000)
    leaving = of_user(engine, user)
    leaving.connection.send(1, bytes(2000))
    leaving.connection.account.close()
    assert user.bytes == 0
    leaving.connection.send(1, bytes(2000))
    leaving.take()
    assert user.bytes == 0


@pytest.mark.parametrize("beginning", [b"", publish(1, "q", bytes(20_000))])
def test_frames_that_do_not_end_are_charged_and_refused_beyond_the_users_share(
    engine, queue, beginning
):
    user = Account("user 'u'", 100_000)
    frame = publish(1, "q", bytes(60_000))
    first, second = (of_user(engine, user) for _ in range(2))
    for each in (first, second):
        each.queues["q"] = queue
    first.feed(beginning + frame[:-1])
    assert user.bytes >= 60_000
    kept = user.bytes
    second.feed(beginning + frame[:-1])
    assert second.faults == [(0, 506)]
    assert "user 'u' keeps" in second.session.faults[0][1].text
    assert user.bytes == kept
    first.feed(frame[-1:])
    assert not first.faults
    assert queue.ready_count == 1 + 2 * bool(beginning)
    assert user.bytes == 0
