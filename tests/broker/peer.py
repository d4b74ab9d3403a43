"""A client for tests of the rules: says methods to a session and reads what was sent back."""

from __future__ import annotations

import itertools
from typing import TypeVar

from tests.broker.engine_fake import (
    FakeConnection,
    FakePlane,
    FakeQueue,
    FakeStream,
    as_engine,
    fake_of,
)

from leporid.amqp.methods import (
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
)
from leporid.broker.access.access import Access, User
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import EVERYTHING, Permissions
from leporid.broker.broker import Broker, TuneLimits
from leporid.broker.connection.session import ConnectionState
from leporid.broker.settings.redeclaring import Redeclare
from leporid.broker.settings.unknown_arguments import OnUnknown
from leporid.durable import Change

M = TypeVar("M", bound=Method)

SECRET = b"secret of this test process"
CAPABILITIES = {
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


SLICE_NS = 1_000_000


class World:
    """A broker over a fake engine, with the changes it recorded."""

    def __init__(
        self,
        *users: User,
        limits: TuneLimits | None = None,
        redeclare: Redeclare = "strict",
        unknown_arguments: OnUnknown = "warn",
        memory_bytes_max: int | None = None,
    ) -> None:
        counter = itertools.count(1)
        self.engine = FakePlane()
        self.changes: list[Change] = []
        everything = {"/": EVERYTHING, "other": EVERYTHING}
        guest = User("guest", salted_sha256("guest", SECRET), permissions=everything)
        self.broker = Broker(
            as_engine(self.engine),
            Access([guest, *users], SECRET),
            record=self.changes.append,
            random_bytes=lambda size: next(counter).to_bytes(size, "big"),
            limits=limits,
            redeclare=lambda vhost: redeclare if vhost == "/" else "strict",
            unknown_arguments=lambda vhost: unknown_arguments if vhost == "/" else "warn",
            identity={"product": "Leporid", "version": "0"},
            memory_bytes_max=memory_bytes_max,
        )
        self.broker.add_vhost("/")
        self.broker.add_vhost("other")
        self.changes.clear()

    def cut_everywhere(self) -> None:
        """From now on a slice is over after one step of a job."""
        self.engine.jobs.clock.monotonic_ns = itertools.count(0, SLICE_NS).__next__

    def turn(self) -> None:
        """Go on with each job for a slice."""
        self.engine.jobs.run(SLICE_NS)

    def peer(self, **login: str) -> Peer:
        """Connect and open a channel."""
        peer = Peer(self.broker)
        peer.handshake(**login)
        peer.call(ChannelOpen())
        return peer

    def queue(self, name: str, vhost: str = "/") -> FakeQueue:
        """Return the fake behind a queue."""
        return fake_of(self.broker.vhosts[vhost].queue(name).engine, FakeQueue)

    def stream(self, name: str, vhost: str = "/") -> FakeStream:
        """Return the fake behind a stream."""
        return fake_of(self.queue(name, vhost), FakeStream)


class Peer:
    """One client. Methods go to channel 1 unless said otherwise."""

    def __init__(self, broker: Broker, *, loopback: bool = True, address: str = "") -> None:
        self.connection = FakeConnection()
        self.session = ConnectionState(
            broker,
            as_engine(self.connection),
            peer_is_loopback=loopback,
            address=address,
            name="test",
        )
        self.connection.session = self.session

    def say(self, method: Method, channel: int = 1) -> list[Method]:
        """Send a method; return what came back on any channel."""
        return self.say_bytes(method.encode(), channel)

    def say_bytes(self, payload: bytes, channel: int = 1) -> list[Method]:
        """Send a method that need not be one."""
        before = len(self.connection.sent)
        self.session.on_method(channel, payload)
        # The turn's, at the end of which all of it is sent.
        self.session.broker.cancels.run(0)
        return [method for _, method in self.connection.sent[before:]]

    def call(self, method: Method, channel: int = 1) -> Method:
        """Send a method that has one answer."""
        answers = self.say(method, channel)
        assert len(answers) == 1, answers
        return answers[0]

    def refused(self, method: Method, channel: int = 1) -> str:
        """Send a method that closes the channel or connection; return the reply text."""
        answer = self.call(method, channel)
        assert isinstance(answer, ChannelClose | ConnectionClose), answer
        assert (answer.class_id, answer.method_id) == (method.CLASS_ID, method.METHOD_ID)
        assert answer.reply_text.encode()
        return answer.reply_text

    def sent(self, kind: type[M]) -> list[M]:
        """Return the methods of one kind that were sent."""
        return [method for _, method in self.connection.sent if isinstance(method, kind)]

    def handshake(
        self, user: str = "guest", password: str = "guest", vhost: str = "/"
    ) -> list[Method]:
        """Go through the handshake; return the answer to connection.open."""
        self.session.on_greeting()
        self.start_ok(user, password)
        self.say(ConnectionTuneOk(channel_max=2047, frame_max=131072, heartbeat=30), 0)
        return self.say(ConnectionOpen(virtual_host=vhost), 0)

    def start_ok(
        self, user: str = "guest", password: str = "guest", mechanism: str = "PLAIN"
    ) -> list[Method]:
        """Log in."""
        return self.say(
            ConnectionStartOk(
                client_properties={"capabilities": dict(CAPABILITIES)},
                mechanism=mechanism,
                response=f"\0{user}\0{password}".encode(),
                locale="en_US",
            ),
            0,
        )


def user(name: str, configure: str, write: str, read: str) -> User:
    """Make a user with permissions on `/`."""
    return User(
        name,
        salted_sha256(name, SECRET),
        permissions={"/": Permissions.of(configure, write, read)},
    )
