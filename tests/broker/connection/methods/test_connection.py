"""The handshake, phase by phase, and what channel 0 takes afterwards."""

from __future__ import annotations

from collections.abc import Callable

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
    QueueDeclare,
)
from leporid.amqp.tables import Value, decode_table
from leporid.broker.access.access import User
from leporid.broker.access.logins import Logins
from leporid.broker.access.passwords import Argon2Hash, hash_password, salted_sha256
from leporid.broker.access.permissions import EVERYTHING
from leporid.broker.broker import TuneLimits
from leporid.broker.connection.methods.connection import (
    CAPABILITIES,
    CLIENT_PROPERTIES_MAX,
    Phase,
)

SLOW = hash_password("slow", b"s" * 16)


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
            "it speaks TLS, which is on another port, if there is a certificate (docs/tls.md)",
        ),
        (b"AMQP\x00\x01\x00\x00", "it speaks AMQP 1.0, not 0-9-1"),
        (b"AMQP\x03\x01\x00\x00", "it speaks AMQP 1.0, not 0-9-1"),
        (b"AMQPsecr", "it speaks another version of AMQP than 0-9-1"),
        (b"GET / HT", "it speaks HTTP, which is on another port"),
        (b"PROXY TC", "it speaks the PROXY protocol, and is not in proxy_protocol.trusted"),
        (
            b"\r\n\r\n\x00\r\nQ",
            "it speaks the PROXY protocol, and is not in proxy_protocol.trusted",
        ),
        (b"hunter22", "it does not speak AMQP"),
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
            salted_sha256("imp", SECRET),
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


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was decoded and has a list in it, as nothing has that the broker sends."""
    seen: list[bytes] = []

    def counting(data: bytes, at: int = 0) -> object:
        if b"\x04list" in data:
            seen.append(data)
        return decode_table(data, at)

    monkeypatch.setattr("leporid.amqp.fields.decode_table", counting)
    return seen


def test_who_says_more_about_himself_than_we_take_is_dropped(
    world: World, decoded: list[bytes], caplog: pytest.LogCaptureFixture
):
    some: dict[str, Value] = dict.fromkeys(map(str, range(CLIENT_PROPERTIES_MAX - 1)))
    some["list"] = []
    for properties, ends in [(some, False), (some | {"list": [None]}, True)]:
        peer = Peer(world.broker)
        peer.session.on_greeting()
        with caplog.at_level("INFO", logger="leporid"):
            peer.say(ConnectionStartOk(properties, "PLAIN", b"\0guest\0guest"), 0)
        assert peer.connection.finished == ends
    assert len(decoded) == 1
    assert f"more values than the limit of {CLIENT_PROPERTIES_MAX}" in caplog.text


def test_before_the_login_only_what_is_due_is_decoded(world: World, decoded: list[bytes]):
    arguments: dict[str, Value] = {"list": [None] * 7000}
    peer = Peer(world.broker)
    peer.session.on_greeting()
    peer.say(QueueDeclare(arguments=arguments), 0)
    assert peer.connection.finished
    waiting = Peer(world.broker)
    waiting.session.on_greeting()
    waiting.session.phase = Phase.SECURING
    waiting.say(ConnectionStartOk(arguments, "PLAIN", b"\0guest\0guest"), 0)
    assert waiting.connection.finished
    refused = Peer(world.broker)
    refused.session.on_greeting()
    refused.start_ok(password="wrong")
    for _ in range(3):
        assert refused.say(ConnectionStartOk(arguments), 0) == []
    assert decoded == []
    refused.say(ConnectionCloseOk(), 0)
    assert refused.connection.finished


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
    world = World(User("u", salted_sha256("u", SECRET), permissions={"/": EVERYTHING}))
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


Hash = tuple[Callable[[], None], Callable[[], None]]


@pytest.fixture
def hashes(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Hash]:
    """What waits to be hashed, and is hashed by the test."""
    waiting: list[Hash] = []
    world.broker.logins = Logins(
        world.broker.access,
        lambda work, done: waiting.append((work, done)),
        world.broker.refusals,
        world.engine.jobs,
    )
    world.broker.access.put_user(User("ann", SLOW))
    monkeypatch.setattr(Argon2Hash, "matches", lambda self, password: password == b"slow")
    return waiting


def hash_next(hashes: list[Hash], at: int = 0) -> None:
    work, done = hashes.pop(at)
    work()
    done()


def claiming(world: World, password: str, address: str = "192.0.2.1", name: str = "ann") -> Peer:
    peer = Peer(world.broker, address=address)
    peer.session.on_greeting()
    peer.start_ok(name, password)
    return peer


def test_hashing_happens_elsewhere(world: World, hashes: list[Hash]):
    right = claiming(world, "slow")
    assert right.session.phase is Phase.SECURING
    assert right.sent(ConnectionTune) == []
    hash_next(hashes)
    assert len(right.sent(ConnectionTune)) == 1

    wrong = claiming(world, "wrong")
    assert wrong.sent(ConnectionClose) == []
    hash_next(hashes)
    assert [close.reply_code for close in wrong.sent(ConnectionClose)] == [403]


def test_a_session_that_is_gone_is_not_let_in(world: World, hashes: list[Hash]):
    lost = claiming(world, "slow")
    lost.session.on_lost()
    hash_next(hashes)
    assert lost.sent(ConnectionTune) == []
    assert world.broker.sessions == {}


def test_nothing_is_hashed_for_a_peer_that_is_gone(world: World, hashes: list[Hash]):
    """Else whoever connects, says a password and goes keeps everybody else from logging in."""
    for at in range(50):
        claiming(world, f"wrong{at}").session.on_lost()
    impatient = claiming(world, "wrong")
    impatient.say(ConnectionTuneOk(1, 8192, 0), 0)  # which it may not say yet
    right = claiming(world, "slow")
    hash_next(hashes)  # the first one's had begun
    hash_next(hashes)
    assert len(right.sent(ConnectionTune)) == 1
    assert hashes == []


def test_who_has_too_many_waiting_is_refused_like_anybody(world: World, hashes: list[Hash]):
    peers = [claiming(world, f"wrong{at}") for at in range(300)]
    closes = [close for peer in peers for close in peer.sent(ConnectionClose)]
    assert 100 < len(closes) < 300
    refused = claiming(world, "wrong", "192.0.2.3")
    hash_next(hashes, -1)
    assert set(closes) == set(refused.sent(ConnectionClose))
    assert len(hashes) == 1
    # Another address, or another name, gets in all the same, and a user without a hash at once.
    elsewhere = claiming(world, "slow", "192.0.2.2")
    assert len(claiming(world, "guest", name="guest").sent(ConnectionTune)) == 1
    hash_next(hashes, -1)
    assert len(elsewhere.sent(ConnectionTune)) == 1


@pytest.mark.parametrize(
    "method", [ConnectionStartOk(), ConnectionTuneOk(), ConnectionOpen(), BasicQos()]
)
def test_the_handshake_is_over(world: World, method):
    text = world.peer().refused(method, 0)
    assert text == "CHANNEL_ERROR - unexpected method in connection state running"


def test_update_secret(world: World):
    assert world.peer().call(ConnectionUpdateSecret(b"new"), 0) == ConnectionUpdateSecretOk()
