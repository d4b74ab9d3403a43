"""The ladder of delays: topic exchanges and queues that hold a message for as long as its key says.

It needs nothing but AMQP 0-9-1 and dead letters, so it works on any broker that RabbitMQ's clients
work on. NServiceBus published it, and kombu has it for Celery. Each level stands for one binary
digit of the delay in seconds. Its exchange gives a message to its queue where the key's digit is 1
and to the next lower level where it is 0; the queue gives it to the next lower level after 2^level
seconds. Below the lowest level is the delivery exchange, to which applications bind theirs.

Responsible for names, arguments, bindings and keys. Must not know which client declares them: any
channel with the four methods of `Channel` will do, pika's for one. Invariant: the digits stay in
front of the key all the way, so levels never see a key of another length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

LEVELS_MAX: Final = 28
"""As published: eight and a half years. One more would pass the ten that a queue may hold."""

KEY_BYTES_MAX: Final = 255
"""What AMQP allows a routing key, and a name."""

QUEUE_TYPES: Final = ("classic", "quorum")
DELIVERY: Final = "delivery"


class Channel(Protocol):
    """What of a client's channel is used; pika's BlockingChannel has it."""

    def exchange_declare(self, exchange: str, exchange_type: str, *, durable: bool) -> Any:
        """Declare an exchange and wait for the answer."""

    def queue_declare(self, queue: str, *, durable: bool, arguments: Mapping[str, object]) -> Any:
        """Declare a queue and wait for the answer."""

    def queue_bind(self, queue: str, exchange: str, routing_key: str) -> Any:
        """Bind a queue to an exchange and wait for the answer."""

    def exchange_bind(self, destination: str, source: str, routing_key: str) -> Any:
        """Bind an exchange to another and wait for the answer."""


class Ladder:
    """One ladder: what it is called, what its keys look like, and how to declare it.

    Args:
        levels: binary digits of the longest delay, 1 to 28.
        prefix: how the names of its exchanges and queues begin; "celery_delayed_" is Celery's.
        queue_type: "quorum" as published, or "classic" for brokers without quorum queues.

    Raises:
        ValueError: one of them is out of range.
    """

    def __init__(
        self, levels: int = LEVELS_MAX, *, prefix: str = "delay-", queue_type: str = "quorum"
    ) -> None:
        if type(levels) is not int or not 1 <= levels <= LEVELS_MAX:
            raise ValueError(f"levels must be a whole number from 1 to {LEVELS_MAX}, not {levels}")
        if queue_type not in QUEUE_TYPES:
            raise ValueError(f"{queue_type!r} is neither 'classic' nor 'quorum'")
        if not prefix or prefix.startswith("amq."):
            raise ValueError(f"prefix {prefix!r}: must not be empty nor begin with 'amq.'")
        if len(f"{prefix}{DELIVERY}".encode()) > KEY_BYTES_MAX:
            raise ValueError(f"prefix: with it, names are longer than {KEY_BYTES_MAX} bytes")
        self.levels = levels
        self.prefix = prefix
        self.queue_type = queue_type

    def __repr__(self) -> str:
        return f"<Ladder {self.entry} … {self.delivery}>"

    @property
    def delay_seconds_max(self) -> int:
        """The longest delay."""
        return (1 << self.levels) - 1

    @property
    def entry(self) -> str:
        """The exchange to publish to: that of the highest level."""
        return self.level_name(self.levels - 1)

    @property
    def delivery(self) -> str:
        """The exchange that messages come to when their time has come."""
        return f"{self.prefix}{DELIVERY}"

    def level_name(self, level: int) -> str:
        """Return the name of a level's exchange and queue."""
        return f"{self.prefix}{level}"

    # ------------------------------------------------------------------ keys

    def key(self, delay_seconds: int, destination: str) -> str:
        """Return the routing key for a message that is to be held.

        Args:
            delay_seconds: whole seconds, 0 to `delay_seconds_max`.
            destination: the routing key that an exchange was bound with.

        Raises:
            ValueError: the delay is out of range, or the key would be too long.
        """
        if type(delay_seconds) is not int:
            raise ValueError(f"a delay is a number of whole seconds, not {delay_seconds!r}")
        if not 0 <= delay_seconds <= self.delay_seconds_max:
            raise ValueError(
                f"a delay of {delay_seconds} seconds is out of range: "
                f"0 to {self.delay_seconds_max} seconds with {self.levels} levels"
            )
        self.check_destination(destination)
        return ".".join([*f"{delay_seconds:0{self.levels}b}", destination])

    def destination_of(self, key: str) -> str:
        """Return the destination in a key, as consumers get it; to delay a message again.

        Raises:
            ValueError: no key of this ladder.
        """
        *digits, destination = key.split(".", self.levels)
        if len(digits) != self.levels or not destination or not set(digits) <= {"0", "1"}:
            raise ValueError(f"{key!r} is no key of a ladder of {self.levels} levels")
        return destination

    def check_destination(self, destination: str) -> None:
        """Refuse what cannot stand behind the digits of a key.

        Raises:
            ValueError: it is empty, too long, or would match the destinations of others.
        """
        if not destination:
            raise ValueError("the destination is empty")
        if 2 * self.levels + len(destination.encode()) > KEY_BYTES_MAX:
            raise ValueError(
                f"a destination of {len(destination.encode())} bytes is too long: with the digits "
                f"of {self.levels} levels, the routing key is longer than {KEY_BYTES_MAX} bytes"
            )
        if {"*", "#"}.intersection(destination.split(".")):
            raise ValueError(f"destination {destination!r}: a wildcard would take others' messages")

    # ------------------------------------------------------------------ declaring

    def declare(self, channel: Channel) -> None:
        """Declare exchanges and queues of all levels and bind them, from the highest down.

        A ladder that is there already stays as it is. One with another number of levels and the
        same prefix would be broken by it; `conflict` finds that out.
        """
        channel.exchange_declare(self.delivery, "topic", durable=True)
        # From the highest down, so that what was interrupted does not look like a smaller ladder.
        for level in reversed(range(self.levels)):
            channel.exchange_declare(self.level_name(level), "topic", durable=True)
        for level in reversed(range(self.levels)):
            name = self.level_name(level)
            lower = self.level_name(level - 1) if level else self.delivery
            higher_digits = "*." * (self.levels - 1 - level)
            channel.queue_declare(name, durable=True, arguments=self._arguments(level, lower))
            channel.queue_bind(name, name, f"{higher_digits}1.#")
            channel.exchange_bind(lower, name, f"{higher_digits}0.#")

    def conflict(self, exists: Callable[[str], bool]) -> str | None:
        """Say why this ladder must not be declared on a broker; None if it may be.

        Two ladders of one prefix that differ in levels share queues, but not the places of the
        digits: messages would come twice, and too early.

        Args:
            exists: whether the broker has an exchange of that name.
        """
        if exists(self.level_name(self.levels)):
            other = "more"
        elif exists(self.level_name(0)) and not exists(self.entry):
            other = "fewer"
        else:
            return None
        return (
            f"there is a ladder {self.prefix!r} of {other} than {self.levels} levels: it would be "
            "broken, as both would share queues; use its number of levels, or another prefix"
        )

    def _arguments(self, level: int, lower: str) -> dict[str, object]:
        arguments: dict[str, object] = {
            "x-queue-type": self.queue_type,
            "x-overflow": "reject-publish",
            "x-message-ttl": 1000 << level,
            "x-dead-letter-exchange": lower,
        }
        if self.queue_type == "quorum":
            arguments["x-dead-letter-strategy"] = "at-least-once"
        return arguments

    def bind(self, channel: Channel, exchange: str, destination: str) -> None:
        """Have an exchange given what was held for a destination.

        The message comes with its whole key, digits included: bind queues to a topic exchange with
        `#.` in front of the destination.

        Raises:
            ValueError: no key can have this destination, or it has wildcards.
        """
        self.check_destination(destination)
        channel.exchange_bind(exchange, self.delivery, f"#.{destination}")
