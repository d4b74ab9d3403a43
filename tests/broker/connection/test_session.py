"""Channels, faults, the end and the alarms of one connection."""

from __future__ import annotations

import pytest
from tests.broker.peer import Peer, World

from leporid.amqp.errors import ConnectionForced, FrameError, PreconditionFailed, SyntaxFault
from leporid.amqp.methods import (
    BasicConsume,
    BasicDeliver,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from leporid.broker.broker import TuneLimits
from leporid.broker.connection.methods.connection import Phase


@pytest.fixture
def world() -> World:
    return World()


# ---------------------------------------------------------------------- an open connection


def test_closing_politely(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="mine", exclusive=True))
    assert peer.call(ConnectionClose(200, "bye"), 0) == ConnectionCloseOk()
    assert world.broker.vhosts["/"].find_queue("mine") is None
    assert peer.say(QueueDeclare(queue="late")) == []
    assert peer.say(ConnectionClose(200, "from another thread"), 0) == [ConnectionCloseOk()]
    assert peer.connection.events[-1] == "await eof"
    assert peer.say(ConnectionCloseOk(), 0) == []
    assert peer.connection.finished
    assert world.broker.sessions == {}


def test_after_our_close_only_close_and_close_ok_count(world: World):
    peer = world.peer()
    peer.session.close_for(ConnectionForced("shutdown"))
    assert peer.sent(ConnectionClose) == [
        ConnectionClose(320, "CONNECTION_FORCED - shutdown", 0, 0)
    ]
    assert peer.session.phase is Phase.CLOSING
    assert peer.say(ChannelOpen(), 5) == []
    assert peer.say(ConnectionOpen(), 0) == []
    assert peer.say_bytes(b"\0\x63\0\x0a", 0) == []
    peer.session.on_fault(1, PreconditionFailed("late"))
    peer.session.close_for(ConnectionForced("again"))
    assert len(peer.sent(ConnectionClose)) == 1
    assert peer.say(ConnectionClose(200, "me too"), 0) == [ConnectionCloseOk()]
    assert not peer.connection.finished
    assert peer.say(ConnectionCloseOk(), 0) == []
    assert peer.connection.finished


def test_a_connection_that_is_lost_leaves_nothing(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="mine", exclusive=True))
    peer.session.on_lost()
    assert world.broker.sessions == {}
    assert world.broker.vhosts["/"].find_queue("mine") is None
    peer.session.on_lost()
    peer.session.close_for(ConnectionForced("too late"))
    assert peer.sent(ConnectionClose) == []


def test_a_frame_that_cannot_be_followed_ends_the_input(world: World):
    peer = world.peer()
    peer.session.on_fault(0, FrameError("bad end"))
    assert [close.reply_code for close in peer.sent(ConnectionClose)] == [501]
    assert peer.connection.finished


def test_content_on_a_channel_that_is_not_open(world: World):
    peer = world.peer()
    peer.session.on_content(9, 2)
    (close,) = peer.sent(ConnectionClose)
    assert close.reply_text == (
        "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
    )
    other = world.peer()
    other.session.on_content(0, 3)
    assert [close.reply_code for close in other.sent(ConnectionClose)] == [505]


def test_a_defect_costs_one_connection(world: World, monkeypatch: pytest.MonkeyPatch):
    peer, neighbour = world.peer(), world.peer()

    def fail(*_: object) -> None:
        raise RuntimeError("defect")

    monkeypatch.setattr(peer.session.vhost, "create_queue", fail)
    (close,) = peer.say(QueueDeclare(queue="q"))
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == 541
    monkeypatch.undo()
    assert isinstance(neighbour.call(QueueDeclare(queue="q")), QueueDeclareOk)


# ---------------------------------------------------------------------- channels


def test_too_many_channels():
    world = World(limits=TuneLimits(channel_max=2))
    peer = Peer(world.broker)
    peer.session.on_greeting()
    peer.start_ok()
    peer.say(ConnectionTuneOk(2, 4096, 0), 0)
    peer.say(ConnectionOpen("/"), 0)
    assert peer.call(ChannelOpen(), 1) == ChannelOpenOk()
    assert peer.call(ChannelOpen(), 60000) == ChannelOpenOk()
    assert peer.call(ChannelOpen(), 3) == ConnectionClose(
        530,
        "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)",
        0,
        0,
    )


def test_a_refused_channel_hears_nothing_but_its_end(world: World):
    peer = world.peer()
    peer.call(ChannelOpen(), 2)
    peer.refused(QueueDeclare(queue="missing", passive=True))
    assert peer.connection.refused == {1}
    assert peer.say(QueueDeclare(queue="q")) == []
    peer.session.on_fault(1, PreconditionFailed("from what came before"))
    assert len(peer.sent(ChannelClose)) == 1
    assert peer.call(ChannelClose(200, "crossed")) == ChannelCloseOk()
    assert peer.say(ChannelCloseOk()) == []
    assert peer.connection.refused == set()
    assert peer.call(ChannelOpen()) == ChannelOpenOk()
    assert isinstance(peer.call(QueueDeclare(queue="q"), 2), QueueDeclareOk)


def test_methods_that_are_not_for_us(world: World):
    text = world.peer().refused(QueueDeclareOk(queue="q"))
    assert text == "COMMAND_INVALID - unimplemented method"
    assert world.peer().refused(ConnectionOpen()) == text
    assert world.peer().refused(BasicDeliver()).startswith("UNEXPECTED_FRAME - expected content h")


def test_unknown_and_malformed_methods(world: World):
    (close,) = world.peer().say_bytes(b"\0\x63\0\x0a")
    assert isinstance(close, ConnectionClose)
    assert (close.reply_code, close.class_id) == (503, 0)
    (close,) = world.peer().say_bytes(BasicQos().encode()[:6])
    assert isinstance(close, ConnectionClose)
    assert close.reply_code in (501, 502)
    assert close.reply_text.endswith("cannot decode <<0,0>>")
    assert (close.class_id, close.method_id) == (60, 10)


def test_a_fault_of_the_engine_keeps_the_method_it_names(world: World):
    peer = world.peer()
    fault = PreconditionFailed("unknown delivery tag 9")
    fault.class_id, fault.method_id = 60, 80
    peer.session.on_fault(1, fault)
    assert peer.sent(ChannelClose) == [
        ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 9", 60, 80)
    ]
    peer.session.on_fault(1, SyntaxFault("broken"))
    assert peer.sent(ConnectionClose) == []


# ---------------------------------------------------------------------- publishing and alarms


def test_publishers_are_told_of_alarms_by_name(world: World):
    publisher, reader = world.peer(), world.peer()
    publisher.connection.publish(1, "", "nowhere")
    broker = world.broker
    broker.set_alarm("memory", True)
    assert publisher.sent(ConnectionBlocked) == []
    publisher.connection.publish(1, "", "nowhere")
    assert publisher.session.blocked
    assert not reader.session.blocked
    broker.set_alarm("disk", True)
    broker.set_alarm("memory", False)
    assert publisher.sent(ConnectionUnblocked) == []
    broker.set_alarm("disk", False)
    assert publisher.sent(ConnectionBlocked) == [ConnectionBlocked("low on memory")]
    assert publisher.sent(ConnectionUnblocked) == [ConnectionUnblocked()]
    assert not world.engine.connections.publishers_blocked
    assert reader.sent(ConnectionBlocked) == []


def test_who_begins_to_publish_during_an_alarm_is_told_then(world: World):
    peer = world.peer()
    world.broker.set_alarm("disk", True)
    world.broker.set_alarm("memory", True)
    assert peer.sent(ConnectionBlocked) == []
    peer.connection.publish(1, "", "nowhere")
    peer.connection.publish(1, "", "nowhere")
    assert peer.sent(ConnectionBlocked) == [ConnectionBlocked("low on memory & disk")]


def test_who_did_not_ask_is_not_told(world: World):
    peer = world.peer()
    peer.session.client_properties = {"capabilities": "none"}
    world.broker.set_alarm("memory", True)
    peer.connection.publish(1, "", "nowhere")
    assert peer.session.blocked
    world.broker.set_alarm("memory", False)
    assert peer.sent(ConnectionBlocked) == []
    assert peer.sent(ConnectionUnblocked) == []


# ---------------------------------------------------------------------- what takes several turns


def turns_until_idle(world: World) -> int:
    count = 0
    while world.engine.jobs.waiting:
        world.turn()
        count += 1
    return count


def test_a_channel_with_many_consumers_closes_in_pieces(world: World):
    peer = world.peer()
    for at in range(50):
        peer.call(QueueDeclare(queue=f"q{at}", auto_delete=True))
        peer.call(BasicConsume(queue=f"q{at}"))
    world.cut_everywhere()
    assert peer.say(ChannelClose(200, "bye")) == []
    assert peer.connection.jobs == 1
    assert turns_until_idle(world) > 40
    assert peer.connection.sent[-1] == (1, ChannelCloseOk())
    assert peer.connection.jobs == 0
    assert not list(world.broker.vhosts["/"].queues())


def test_a_connection_that_is_lost_while_a_channel_closes_leaves_nothing(world: World):
    peer = world.peer()
    for at in range(10):
        peer.call(QueueDeclare(queue=f"q{at}", exclusive=True))
        peer.call(BasicConsume(queue=f"q{at}"))
    world.cut_everywhere()
    assert peer.say(ChannelClose(200, "bye")) == []
    peer.session.on_lost()
    turns_until_idle(world)
    assert ChannelCloseOk() not in [method for _, method in peer.connection.sent]
    assert not list(world.broker.vhosts["/"].queues())
    assert world.broker.sessions == {}


def test_many_channels_that_have_nothing_end_in_pieces(world: World):
    peer = world.peer()
    for number in range(2, 60):
        peer.call(ChannelOpen(), number)
    world.cut_everywhere()
    peer.session.on_lost()
    assert turns_until_idle(world) > 40
    assert world.broker.session_index.channel_count == 0


def test_many_exclusive_queues_go_in_pieces(world: World):
    peer, other = world.peer(), world.peer()
    for at in range(50):
        peer.call(QueueDeclare(queue=f"q{at}", exclusive=True))
    world.cut_everywhere()
    peer.session.on_lost()
    left = len(list(world.broker.vhosts["/"].queues()))
    assert left > 40
    assert other.say(QueueDeclare(queue="mine")) == [QueueDeclareOk("mine", 0, 0)]
    assert turns_until_idle(world) > 20
    assert [queue.name for queue in world.broker.vhosts["/"].queues()] == ["mine"]


def test_an_exchange_with_many_bindings_goes_in_pieces(world: World):
    peer, other = world.peer(), world.peer()
    peer.call(ExchangeDeclare(exchange="x", type="direct"))
    peer.call(QueueDeclare(queue="q"))
    for at in range(50):
        peer.call(QueueBind(queue="q", exchange="x", routing_key=str(at)))
    world.cut_everywhere()
    assert peer.say(ExchangeDelete(exchange="x")) == []
    assert world.broker.vhosts["/"].find_exchange("x") is None
    # Who declares it again waits until it is gone.
    assert other.say(ExchangeDeclare(exchange="x", type="fanout")) == []
    assert turns_until_idle(world) > 20
    assert peer.connection.sent[-1] == (1, ExchangeDeleteOk())
    found = world.broker.vhosts["/"].exchange("x")
    assert (found.type, len(found.outgoing)) == ("fanout", 0)


def test_a_queue_with_many_bindings_goes_in_pieces(world: World):
    peer, other = world.peer(), world.peer()
    peer.call(QueueDeclare(queue="q"))
    for at in range(50):
        peer.call(QueueBind(queue="q", exchange="amq.direct", routing_key=str(at)))
    world.cut_everywhere()
    assert peer.say(QueueDelete(queue="q")) == []
    assert world.broker.vhosts["/"].find_queue("q") is None
    assert other.say(QueueDeclare(queue="q", auto_delete=True)) == []
    assert turns_until_idle(world) > 20
    assert peer.connection.sent[-1] == (1, QueueDeleteOk(0))
    assert world.broker.vhosts["/"].queue("q").auto_delete
    assert not world.broker.vhosts["/"].exchange("amq.direct").outgoing


# ---------------------------------------------------------------------- the log


def test_lines_that_a_peer_causes_say_who_it_was(world: World, caplog):
    peer = world.peer()
    with caplog.at_level("INFO"):
        for _ in range(3):
            peer.call(QueueDeclare(queue="gone", passive=True))
            peer.say(ChannelCloseOk())
            peer.call(ChannelOpen())
    assert len(caplog.records) == 3
    assert {getattr(each, "caused_by", None) for each in caplog.records} == {
        (peer.session.name, "user guest")
    }
