"""The handshake, channels, faults and alarms of one connection."""

from __future__ import annotations

import pytest

from leporid.amqp.errors import ConnectionForced, FrameError, PreconditionFailed, SyntaxFault
from leporid.amqp.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicDeliver,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    QueueDeclare,
    QueueDeclareOk,
)
from leporid.broker.access import User
from leporid.broker.broker import Limits
from leporid.broker.methods.connection import CAPABILITIES, Phase
from leporid.broker.passwords import from_clear
from leporid.broker.permissions import EVERYTHING
from tests.broker.peer import SECRET, Peer, World


@pytest.fixture
def world() -> World:
    return World()


# ---------------------------------------------------------------------- the handshake


def test_start_announces_what_rabbitmq_announces_and_who_we_are(world: World):
    peer = Peer(world.broker)
    peer.session.on_greeting()
    (start,) = peer.sent(ConnectionStart)
    assert start.server_properties["capabilities"] == CAPABILITIES
    assert all(value is True for value in CAPABILITIES.values())
    assert start.server_properties["product"] == "Leporid"
    assert start.mechanisms.split() == [b"PLAIN", b"AMQPLAIN"]
    assert (start.version_major, start.version_minor, start.locales) == (0, 9, b"en_US")


def test_the_whole_handshake(world: World):
    peer = Peer(world.broker)
    peer.session.on_greeting()
    assert not peer.session.authenticated
    assert peer.start_ok() == [ConnectionTune(2047, 131072, 60)]
    assert peer.session.authenticated
    assert not peer.session.opened
    assert peer.connection.user_id == b"guest"
    assert peer.say(ConnectionTuneOk(100, 8192, 7), 0) == []
    assert (peer.connection.frame_max, peer.session.heartbeat_s) == (8192, 7)
    assert peer.say(ConnectionOpen("other"), 0) == [ConnectionOpenOk()]
    assert peer.session.opened
    assert peer.session.vhost.name == "other"


def test_an_impersonator_may_write_any_user_id(world: World):
    world = World(
        User(
            "imp",
            from_clear("imp", SECRET),
            tags=frozenset({"impersonator"}),
            permissions={"/": EVERYTHING},
        )
    )
    peer = world.peer(user="imp", password="imp")
    assert peer.connection.user_id == b""


def test_a_failed_login_is_told_only_to_who_wants_to_know(world: World):
    peer = Peer(world.broker)
    peer.session.on_greeting()
    (close,) = peer.start_ok(password="wrong")
    assert close == ConnectionClose(
        403,
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
        "For details see the broker logfile.",
        0,
        0,
    )
    assert peer.session.closing
    assert not peer.connection.finished
    peer.say(ConnectionCloseOk(), 0)
    assert peer.connection.finished

    silent = Peer(world.broker)
    silent.session.on_greeting()
    assert silent.say(ConnectionStartOk({}, "PLAIN", b"\0guest\0wrong"), 0) == []
    assert silent.connection.finished
    assert world.broker.sessions == set()


@pytest.mark.parametrize(
    "method",
    [
        ConnectionStartOk({}, "SCRAM", b"x"),
        ConnectionStartOk({}, "PLAIN", b"x"),
        ConnectionTuneOk(1, 8192, 0),
        ConnectionOpen("/"),
        ConnectionClose(200, "bye"),
    ],
)
def test_before_the_login_anything_else_ends_in_silence(world: World, method):
    peer = Peer(world.broker)
    peer.session.on_greeting()
    assert peer.say(method, 0) == []
    assert peer.connection.finished
    assert peer.session.phase is Phase.CLOSED


def test_before_the_login_channels_and_nonsense_end_in_silence(world: World):
    for channel, payload in [(1, ChannelOpen().encode()), (0, b"\0\x63\0\x0a"), (0, b"\0\x0a\0\x0b")]:
        peer = Peer(world.broker)
        peer.session.on_greeting()
        assert peer.say_bytes(payload, channel) == []
        assert peer.connection.finished


def tuned(world: World, channel_max: int, frame_max: int) -> list[object]:
    peer = Peer(world.broker)
    peer.session.on_greeting()
    peer.start_ok()
    return [*peer.say(ConnectionTuneOk(channel_max, frame_max, 0), 0)]


@pytest.mark.parametrize(
    ("channel_max", "frame_max", "text"),
    [
        (0, 4096, "channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"),
        (2048, 4096, "channel_max = 2048 is higher than the maximum allowed value (2047)"),
        (10, 4095, "frame_max = 4095 is lower than the minimum allowed value (4096)"),
        (10, 0, "frame_max = 0 is higher than the maximum allowed value (131072)"),
        (10, 131073, "frame_max = 131073 is higher than the maximum allowed value (131072)"),
    ],
)
def test_negotiation_has_bounds(world: World, channel_max: int, frame_max: int, text: str):
    assert tuned(world, channel_max, frame_max) == [
        ConnectionClose(530, f"NOT_ALLOWED - negotiated {text}", 10, 30)
    ]


def test_without_limits_of_ours_zero_is_fine():
    world = World(limits=Limits(channel_max=0, frame_max=0))
    assert tuned(world, 0, 0) == []
    assert tuned(world, 65535, 1 << 30) == []


def test_an_unknown_or_forbidden_vhost(world: World):
    peer = Peer(world.broker)
    assert peer.handshake(vhost="none") == [
        ConnectionClose(530, "NOT_ALLOWED - vhost none not found", 10, 40)
    ]
    world = World(User("u", from_clear("u", SECRET), permissions={"/": EVERYTHING}))
    assert Peer(world.broker).handshake("u", "u", "other") == [
        ConnectionClose(
            530, "NOT_ALLOWED - access to vhost 'other' refused for user 'u'", 10, 40
        )
    ]


def test_while_opening_other_frames_are_answered(world: World):
    peer = Peer(world.broker)
    peer.session.on_greeting()
    peer.start_ok()
    peer.say(ConnectionTuneOk(1, 4096, 0), 0)
    (close,) = peer.say(BasicQos(prefetch_count=1), 1)
    assert close == ConnectionClose(
        505, "UNEXPECTED_FRAME - type 1, all octets = <<0,60,0,10,0,0,0,0,0,1,0>>", 0, 0
    )


def test_hashing_happens_elsewhere_and_the_session_may_be_gone_by_then(world: World):
    waiting = []
    world.broker.offload = lambda work, done: waiting.append((work, done))
    world.broker.access.needs_hashing = lambda credentials: True  # type: ignore[method-assign]
    peer = Peer(world.broker)
    peer.session.on_greeting()
    assert peer.start_ok() == []
    assert peer.session.phase is Phase.SECURING
    work, done = waiting.pop()
    work()
    done()
    assert len(peer.sent(ConnectionTune)) == 1

    lost = Peer(world.broker)
    lost.session.on_greeting()
    lost.start_ok()
    lost.session.on_lost()
    waiting.pop()[1]()
    assert lost.sent(ConnectionTune) == []

    wrong = Peer(world.broker)
    wrong.session.on_greeting()
    wrong.start_ok(password="wrong")
    waiting.pop()[1]()
    assert [close.reply_code for close in wrong.sent(ConnectionClose)] == [403]


# ---------------------------------------------------------------------- an open connection


@pytest.mark.parametrize(
    "method", [ConnectionStartOk(), ConnectionTuneOk(), ConnectionOpen(), BasicQos()]
)
def test_the_handshake_is_over(world: World, method):
    text = world.peer().refused(method, 0)
    assert text == "CHANNEL_ERROR - unexpected method in connection state running"


def test_update_secret(world: World):
    assert world.peer().call(ConnectionUpdateSecret(b"new"), 0) == ConnectionUpdateSecretOk()


def test_closing_politely(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="mine", exclusive=True))
    assert peer.call(ConnectionClose(200, "bye"), 0) == ConnectionCloseOk()
    assert peer.connection.finished
    assert world.broker.vhosts["/"].find_queue("mine") is None
    assert world.broker.sessions == set()


def test_after_our_close_only_close_and_close_ok_count(world: World):
    peer = world.peer()
    peer.session.close_for(ConnectionForced("shutdown"))
    assert peer.sent(ConnectionClose) == [
        ConnectionClose(320, "CONNECTION_FORCED - shutdown", 0, 0)
    ]
    assert peer.session.closing
    assert peer.say(ChannelOpen(), 5) == []
    assert peer.say(ConnectionOpen(), 0) == []
    assert peer.say_bytes(b"\0\x63\0\x0a", 0) == []
    peer.session.on_fault(1, PreconditionFailed("late"))
    peer.session.close_for(ConnectionForced("again"))
    assert len(peer.sent(ConnectionClose)) == 1
    assert peer.say(ConnectionClose(200, "me too"), 0) == [ConnectionCloseOk()]
    assert peer.connection.finished
    assert peer.say(ConnectionCloseOk(), 0) == []


def test_a_connection_that_is_lost_leaves_nothing(world: World):
    peer = world.peer()
    peer.call(QueueDeclare(queue="mine", exclusive=True))
    peer.session.on_lost()
    assert world.broker.sessions == set()
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


def test_opening_twice_and_not_at_all(world: World):
    assert world.peer().refused(ChannelOpen()) == "CHANNEL_ERROR - second 'channel.open' seen"
    text = world.peer().refused(BasicQos(), 2)
    assert text == "CHANNEL_ERROR - expected 'channel.open'"


def test_too_many_channels():
    world = World(limits=Limits(channel_max=2))
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


def test_closing_a_channel_and_opening_it_again(world: World):
    peer = world.peer()
    assert peer.call(ChannelClose(200, "bye")) == ChannelCloseOk()
    assert peer.connection.channels == {}
    assert peer.call(ChannelOpen()) == ChannelOpenOk()


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


def test_flow_and_tickets(world: World):
    peer = world.peer()
    assert peer.call(ChannelFlow(active=True)) == ChannelFlowOk(active=True)
    assert peer.call(AccessRequest()) == AccessRequestOk(1)
    assert peer.refused(ChannelFlow(active=False)) == "NOT_IMPLEMENTED - active=false"


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


def test_publishing_needs_an_exchange_and_the_right_to_write(world: World):
    peer = world.peer()
    peer.connection.publish(1, "none", "k")
    assert peer.sent(ChannelClose) == [
        ChannelClose(404, "NOT_FOUND - no exchange 'none' in vhost '/'", 60, 40)
    ]


def test_publishers_are_told_of_alarms_by_name(world: World):
    publisher, reader = world.peer(), world.peer()
    publisher.connection.publish(1, "", "nowhere")
    broker = world.broker
    broker.set_alarm("memory", True)
    assert publisher.session.blocked
    assert not reader.session.blocked
    broker.set_alarm("disk", True)
    broker.set_alarm("memory", False)
    assert world.plane.publishers_blocked
    assert publisher.sent(ConnectionUnblocked) == []
    broker.set_alarm("disk", False)
    assert publisher.sent(ConnectionBlocked) == [ConnectionBlocked("low on memory")]
    assert publisher.sent(ConnectionUnblocked) == [ConnectionUnblocked()]
    assert not world.plane.publishers_blocked
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
    peer.connection.publish(1, "", "nowhere")
    world.broker.set_alarm("memory", True)
    world.broker.set_alarm("memory", False)
    assert peer.sent(ConnectionBlocked) == []
    assert peer.sent(ConnectionUnblocked) == []
