"""What all connections share: which of them the server must look at after a turn."""

from __future__ import annotations

from itertools import count, pairwise

from tests.engine.frames import frames_of, publish
from tests.engine.session_fake import Peer
from tests.engine.slices import cut_often, steps_of, turns

from leporid.amqp.frames import method_frame
from leporid.amqp.methods import QueueDeclare
from leporid.amqp.tables import Value

MS = 1_000_000


def test_a_turn_touches_those_who_get_something(engine, queue, peer):
    reader, idle = Peer(engine), Peer(engine)
    engine.connections.take_touched()
    reader.channel.consume(queue, "c", True, 0, 0)
    peer.feed(publish(1, "q"))
    engine.run()
    assert engine.connections.take_touched() == [reader.connection]
    assert idle.connection.output.pending_bytes == 0


def test_touched_are_those_with_output_or_an_end(engine, peer):
    engine.connections.take_touched()
    assert engine.connections.take_touched() == []
    peer.connection.send(1, b"1234")
    peer.connection.send(1, b"5678")
    assert engine.connections.take_touched() == [peer.connection]
    assert engine.connections.take_touched() == []
    assert len(frames_of(peer.take())) == 2
    peer.connection.finish()
    assert engine.connections.take_touched() == [peer.connection]


def test_the_input_of_a_connection_is_cut_and_taken_up_in_later_turns(engine, queue, peer):
    engine.clock.monotonic_ns = count(0, MS).__next__
    peer.feed(publish(1, "q", b"x") * 1000)
    first = queue.ready_count
    assert 0 < first < 200
    assert not peer.connection.reading
    seen = [first]
    while engine.busy:
        engine.run()
        seen.append(queue.ready_count)
    assert max(after - before for before, after in pairwise(seen)) < 200
    assert seen[-1] == 1000
    assert peer.connection.reading


def test_each_large_method_ends_a_slice(engine, peer):
    cut_often(engine)
    before = len(peer.session.methods)
    many: dict[str, Value] = {f"x-{at}": None for at in range(1000)}
    peer.feed(method_frame(1, QueueDeclare(queue="q", arguments=many)) * 5)
    assert len(peer.session.methods) == before + 1
    assert steps_of(engine, lambda: len(peer.session.methods)) == [1] * 4


def test_connections_that_were_cut_take_turns(engine, queue):
    engine.clock.monotonic_ns = count(0, MS).__next__
    peers = [Peer(engine, {"q": queue}) for _ in range(3)]
    for each in peers:
        each.feed(publish(1, "q", b"x") * 500)
    ended = []
    while engine.busy:
        engine.run()
        ended += [each for each in peers if each.connection.reading and each not in ended]
    assert ended == peers
    assert queue.ready_count == 1500


def test_a_connection_handles_nothing_while_a_job_of_it_is_under_way(engine, queue, peer):
    peer.connection.begin_work()
    assert not peer.connection.reading
    peer.feed(publish(1, "q", b"x"))
    engine.run()
    assert queue.ready_count == 0
    peer.connection.end_work()
    engine.run()
    assert queue.ready_count == 1
    assert peer.connection.reading


def test_publishers_are_open_channels_that_have_published(engine, queue, peer):
    peer.channel.consume(queue, "c", True, 0, 0)
    assert engine.connections.publishers == 0
    peer.feed(publish(1, "q") * 2 + publish(2, "q") + publish(1, "nowhere"))
    assert engine.connections.publishers == 2
    peer.connection.close_channel(1)
    assert engine.connections.publishers == 1
    peer.connection.lost()
    peer.connection.mute()
    assert engine.connections.publishers == 0


def test_channels_with_transactions_are_forgotten_in_steps(engine, queue, peer):
    connection = peer.connection
    channels = [connection.open_channel(number) for number in range(10, 110)]
    for number, channel in enumerate(channels, 10):
        channel.select_tx()
        peer.feed(publish(number, "q") * 50)
    kept = connection.account.bytes
    cut_often(engine)
    connection.shut()
    released = [kept - connection.account.bytes]
    released += steps_of(engine, lambda: kept - connection.account.bytes)
    assert max(released) < kept / 4
    assert connection.account.bytes < kept / 100
    assert all(channel.closed for channel in channels)


def test_channels_of_a_connection_that_ends_get_nothing_from_each_other(engine, queue, peer):
    connection = peer.connection
    channels = [connection.open_channel(number) for number in range(10, 110)]
    for channel in channels:
        channel.consume(queue, "c", False, 0, 1)
    peer.feed(publish(1, "q", b"x") * 100)
    engine.run()
    assert [channel.unacked_count for channel in channels] == [1] * 100
    peer.take()
    cut_often(engine)
    connection.shut()
    peer.take()
    ready = [queue.ready_count, *(queue.ready_count for _ in turns(engine))]
    assert ready == sorted(ready)
    assert len(set(ready)) > 3
    assert ready[-1] == 100
    assert connection.output.pending_bytes == 0
