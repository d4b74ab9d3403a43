"""The handshake, phase by phase, and what channel 0 takes afterwards."""

from __future__ import annotations

import pytest
from tests.broker.peer import SECRET, Peer, World

from leporid.amqp.methods import (
    BasicQos,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from leporid.broker.access.access import Credentials, User
from leporid.broker.access.passwords import from_clear
from leporid.broker.access.permissions import EVERYTHING
from leporid.broker.broker import TuneLimits
from leporid.broker.connection.methods.connection import CAPABILITIES, Phase


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


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (
            b"\x16\x03\x01\x02\x00\x01\x00\x01",
            "it speaks TLS, which is not there yet; put a TLS proxy in front",
        ),
        (b"AMQP\x00\x01\x00\x00", "it speaks AMQP 1-0-0, not 0-9-1"),
        (b"GET / HT", "it does not speak AMQP: it began with b'GET / HT'"),
    ],
)
def test_who_speaks_something_else_stands_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture, header: bytes, said: str
):
    peer = Peer(world.broker)
    with caplog.at_level("INFO", logger="leporid"):
        peer.session.on_stranger(header)
    assert [record.getMessage() for record in caplog.records] == [
        f"{peer.session.name}: refused, {said}"
    ]


def reached(peer: Peer) -> tuple[bool, bool]:
    return peer.session.authenticated, peer.session.opened


def test_the_whole_handshake(world: World):
    peer = Peer(world.broker)
    peer.session.on_greeting()
    assert reached(peer) == (False, False)
    assert peer.start_ok() == [ConnectionTune(2047, 131072, 60)]
    assert reached(peer) == (True, False)
    assert peer.connection.user_id == b"guest"
    assert peer.say(ConnectionTuneOk(100, 8192, 7), 0) == []
    assert (peer.connection.output.frame_max, peer.session.heartbeat_s) == (8192, 7)
    assert peer.say(ConnectionOpen("other"), 0) == [ConnectionOpenOk()]
    assert reached(peer) == (True, True)
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
    assert peer.session.phase is Phase.CLOSING
    assert "finish" not in peer.connection.events
    peer.say(ConnectionCloseOk(), 0)
    assert "finish" in peer.connection.events

    silent = Peer(world.broker)
    silent.session.on_greeting()
    assert silent.say(ConnectionStartOk({}, "PLAIN", b"\0guest\0wrong"), 0) == []
    assert silent.connection.finished
    assert world.broker.sessions == {}


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
    for channel, payload in [
        (1, ChannelOpen().encode()),
        (0, b"\0\x63\0\x0a"),
        (0, b"\0\x0a\0\x0b"),
    ]:
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
    world = World(limits=TuneLimits(channel_max=0, frame_max=0))
    assert tuned(world, 0, 0) == []
    assert tuned(world, 65535, 1 << 30) == []


def test_an_unknown_or_forbidden_vhost(world: World):
    peer = Peer(world.broker)
    assert peer.handshake(vhost="none") == [
        ConnectionClose(530, "NOT_ALLOWED - vhost none not found", 10, 40)
    ]
    world = World(User("u", from_clear("u", SECRET), permissions={"/": EVERYTHING}))
    assert Peer(world.broker).handshake("u", "u", "other") == [
        ConnectionClose(530, "NOT_ALLOWED - access to vhost 'other' refused for user 'u'", 10, 40)
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


def test_nothing_is_hashed_for_a_peer_that_is_gone(world: World):
    """Else whoever connects, says a password and goes keeps everybody else from logging in."""
    waiting = []
    hashed: list[Credentials] = []
    world.broker.offload = lambda work, done: waiting.append((work, done))
    world.broker.access.needs_hashing = lambda credentials: True  # type: ignore[method-assign]
    world.broker.access.verify = hashed.append  # type: ignore[method-assign,assignment]
    for is_gone in (True, False):
        peer = Peer(world.broker)
        peer.session.on_greeting()
        peer.start_ok()
        if is_gone:
            peer.session.on_lost()
    for work, _ in waiting:
        work()
    assert len(hashed) == 1


@pytest.mark.parametrize(
    "method", [ConnectionStartOk(), ConnectionTuneOk(), ConnectionOpen(), BasicQos()]
)
def test_the_handshake_is_over(world: World, method):
    text = world.peer().refused(method, 0)
    assert text == "CHANNEL_ERROR - unexpected method in connection state running"


def test_update_secret(world: World):
    assert world.peer().call(ConnectionUpdateSecret(b"new"), 0) == ConnectionUpdateSecretOk()
