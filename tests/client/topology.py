"""A broker's topology as far as a ladder of delays uses it, for tests without a broker."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Self

from pika.exceptions import ChannelClosedByBroker


class Topology:
    """A broker's exchanges, queues and bindings, declared through the methods of pika's channel."""

    def __init__(self) -> None:
        self.exchanges: dict[str, str] = {}
        self.queues: dict[str, Mapping[str, object]] = {}
        self.bindings: list[tuple[str, str, str]] = []
        self.calls = 0

    def channel(self) -> Self:
        return self

    def close(self) -> None:
        """A channel of a topology has nothing to close."""

    def exchange_declare(
        self,
        exchange: str,
        exchange_type: str = "direct",
        *,
        durable: bool = False,
        passive: bool = False,
    ) -> None:
        if passive:
            if exchange not in self.exchanges:
                raise ChannelClosedByBroker(404, f"NOT_FOUND - no exchange '{exchange}'")
            return
        assert durable
        self.calls += 1
        self.exchanges[exchange] = exchange_type

    def queue_declare(self, queue: str, *, durable: bool, arguments: Mapping[str, object]) -> None:
        assert durable
        self.calls += 1
        self.queues[queue] = arguments

    def queue_bind(self, queue: str, exchange: str, routing_key: str) -> None:
        assert queue in self.queues
        self._bind(exchange, f"queue {queue}", routing_key)

    def exchange_bind(self, destination: str, source: str, routing_key: str) -> None:
        assert destination in self.exchanges
        self._bind(source, destination, routing_key)

    def _bind(self, source: str, destination: str, key: str) -> None:
        assert self.exchanges[source] == "topic"
        self.calls += 1
        self.bindings.append((source, destination, key))

    def follow(self, exchange: str, key: str, end: str) -> int:
        """Let a message go its way to its end; returns the milliseconds that it waits."""
        waited_ms = 0
        while exchange != end:
            (place,) = self.routes(exchange, key)
            if place.startswith("queue "):
                arguments = self.queues[place.removeprefix("queue ")]
                waited_ms += int(str(arguments["x-message-ttl"]))
                place = str(arguments["x-dead-letter-exchange"])
            exchange = place
        return waited_ms

    def routes(self, exchange: str, key: str) -> list[str]:
        return [
            to
            for source, to, pattern in self.bindings
            if source == exchange
            if matches(pattern, key)
        ]


def matches(pattern: str, key: str) -> bool:
    """Topic matching, as far as the ladder uses it: stars, and a # at one end."""
    words = re.escape(pattern).replace(r"\*", "[^.]*")
    words = re.sub(r"\\\.\\#$", r"(\\..*)?", words)
    words = re.sub(r"^\\#\\\.", r"(.*\\.)?", words)
    return re.fullmatch(words, key) is not None
