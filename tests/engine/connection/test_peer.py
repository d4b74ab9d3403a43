"""The other end of a connection: what the session may do with it."""

from tests.engine import frames
from tests.engine.frames import frame, frames_of


def test_a_method_and_a_method_with_content(peer):
    peer.connection.send(1, b"\x00\x14\x00\x0b\x00\x00\x00\x00")
    peer.connection.output.frame_max = 4096
    peer.connection.send_content(
        2, b"\x00\x3c\x00\x32\x01\x38\x02no\x00\x01k", frames.PERSISTENT, bytes(5000)
    )
    opened, returned = peer.events()
    assert opened == frames.Method(1, 20, 11, bytes(4))
    assert returned == frames.Returned(2, "", "k", frames.PERSISTENT, bytes(5000), 2, 312, "no")


def test_a_heartbeat(peer):
    peer.connection.send_heartbeat()
    assert peer.take() == frame(frames.HEARTBEAT, 0, b"")


def test_channels_are_known_by_number(peer):
    assert set(peer.connection.channels) == {1, 2}
    assert peer.connection.channels[1] is peer.channel
    assert peer.channel.number == 1
    third = peer.connection.open_channel(3)
    assert peer.connection.channels[3] is third
    peer.connection.refuse_channel(3)
    assert third.closing
    assert third.closed
    assert peer.connection.channels[3] is third
    peer.connection.close_channel(3)
    assert 3 not in peer.connection.channels
    peer.connection.refuse_channel(9)
    peer.connection.close_channel(9)


def test_nothing_is_sent_to_one_that_is_lost(peer):
    peer.connection.lost()
    peer.connection.send(1, b"1234")
    assert peer.take() == b""


def test_the_output_of_one_that_is_lost_goes_at_once(peer):
    peer.connection.send(1, bytes(100_000))
    assert peer.connection.output.pending_bytes > 100_000
    peer.connection.lost()
    assert peer.connection.output.pending_bytes == 0
    assert peer.connection.output.outgoing() is None


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
