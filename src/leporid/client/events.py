"""What happens to a connection, as values: for `on_event`, `Connection.events()` and the log.

Must not know who makes them. Invariant: each says by itself what it is about.
"""

from __future__ import annotations

from dataclasses import dataclass

from leporid.client.settings import Address


@dataclass(frozen=True, slots=True)
class Event:
    """Above all events."""


@dataclass(frozen=True, slots=True)
class Connected(Event):
    """A connection is open; what was declared is not restored yet.

    Attributes:
        address: the broker's.
        product: what the broker calls itself.
        version: its version.
    """

    address: Address
    product: str
    version: str


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """The connection is gone.

    Attributes:
        address: the broker's.
        error: why.
    """

    address: Address
    error: Exception


@dataclass(frozen=True, slots=True)
class Reconnecting(Event):
    """An attempt to connect again failed, or is about to be made.

    Attributes:
        address: the one that is tried next.
        attempt: 1 for the first.
        wait_s: seconds until it is tried.
        error: why the attempt before it failed; None for the first.
    """

    address: Address
    attempt: int
    wait_s: float
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Restored(Event):
    """Channels, what was declared, and consumers are there again.

    Attributes:
        channels: how many.
        consumers: how many.
    """

    channels: int
    consumers: int


@dataclass(frozen=True, slots=True)
class RestoreFailed(Event):
    """Something could not be declared again; who uses it is told as well.

    Attributes:
        what: such as `queue 'orders'`.
        error: what the broker said.
    """

    what: str
    error: Exception


@dataclass(frozen=True, slots=True)
class ChannelClosed(Event):
    """The broker closed a channel; it is opened again if the connection is robust.

    Attributes:
        channel: its number.
        error: why.
    """

    channel: int
    error: Exception


@dataclass(frozen=True, slots=True)
class Blocked(Event):
    """The broker takes no publishes for now; they wait.

    Attributes:
        reason: the broker's.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Unblocked(Event):
    """The broker takes publishes again."""


@dataclass(frozen=True, slots=True)
class ConsumerEnded(Event):
    """The broker cancelled a consumer; its iterator raises `ConsumerCancelled`.

    Attributes:
        queue: the queue's name.
        consumer_tag: the consumer's.
    """

    queue: str
    consumer_tag: str


@dataclass(frozen=True, slots=True)
class Resent(Event):
    """Publishes were sent again that the lost connection left unconfirmed.

    Attributes:
        channel: the number of their channel.
        count: how many.
    """

    channel: int
    count: int


@dataclass(frozen=True, slots=True)
class AckRepeated(Event):
    """A message came again whose ack was lost with a connection; it was acked once more.

    Attributes:
        queue: where it came from.
        message_id: its id.
    """

    queue: str
    message_id: str


@dataclass(frozen=True, slots=True)
class Unroutable(Event):
    """A message came back on a channel without confirms, where nobody waits for it.

    Attributes:
        exchange: what it was published to.
        key: its routing key.
        text: the broker's words.
    """

    exchange: str
    key: str
    text: str
