"""Rebuilding virtual hosts from the definitions that were recorded.

Responsible for making them in an order in which each finds what it needs. Must not know where
they were recorded. Invariant: nothing is recorded again, and a definition that makes no sense is
reported and left out instead of keeping the broker from starting.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from leporid.amqp.errors import Fault
from leporid.amqp.tables import decode_table
from leporid.broker import terms
from leporid.broker.arguments import queue_type
from leporid.broker.exchanges import Binding, DestinationKind
from leporid.broker.vhost import VirtualHost

logger = logging.getLogger(__name__)


class RecordedExchange(Protocol):
    """A durable exchange as it was recorded."""

    @property
    def vhost(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def auto_delete(self) -> bool: ...
    @property
    def internal(self) -> bool: ...
    @property
    def arguments(self) -> bytes: ...


class RecordedQueue(Protocol):
    """A durable queue as it was recorded."""

    @property
    def id(self) -> int: ...
    @property
    def vhost(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def auto_delete(self) -> bool: ...
    @property
    def arguments(self) -> bytes: ...


class RecordedBinding(Protocol):
    """A durable binding as it was recorded."""

    @property
    def vhost(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def destination(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def arguments(self) -> bytes: ...


class Snapshot(Protocol):
    """Everything that was recorded; the virtual hosts are made before this is applied."""

    @property
    def vhosts(self) -> Iterable[str]: ...
    @property
    def exchanges(self) -> Iterable[RecordedExchange]: ...
    @property
    def queues(self) -> Iterable[RecordedQueue]: ...
    @property
    def bindings(self) -> Iterable[RecordedBinding]: ...
    @property
    def next_queue_id(self) -> int: ...


def restore(snapshot: Snapshot, vhosts: Mapping[str, VirtualHost]) -> None:
    """Fill virtual hosts with what was recorded of them."""
    for exchange in snapshot.exchanges:
        with _reported(terms.exchange_in(exchange.vhost, exchange.name)):
            _restore_exchange(vhosts[exchange.vhost], exchange)
    for queue in snapshot.queues:
        with _reported(terms.queue_in(queue.vhost, queue.name)):
            _restore_queue(vhosts[queue.vhost], queue)
    for binding in snapshot.bindings:
        ends = f"'{binding.source}' to '{binding.destination}'"
        with _reported(f"binding from {ends} in vhost '{binding.vhost}'"):
            _restore_binding(vhosts[binding.vhost], binding)


@contextmanager
def _reported(title: str) -> Iterator[None]:
    """Log that one definition could not be restored, instead of failing."""
    try:
        yield
    except (Fault, LookupError) as error:
        logger.error("recorded %s is left out: %s", title, error)


def _restore_exchange(vhost: VirtualHost, recorded: RecordedExchange) -> None:
    arguments, _ = decode_table(recorded.arguments)
    vhost.add_exchange(
        recorded.name,
        recorded.type,
        durable=True,
        auto_delete=recorded.auto_delete,
        internal=recorded.internal,
        arguments=arguments,
    )


def _restore_queue(vhost: VirtualHost, recorded: RecordedQueue) -> None:
    arguments, _ = decode_table(recorded.arguments)
    vhost.make_queue(
        recorded.name,
        queue_id=recorded.id,
        auto_delete=recorded.auto_delete,
        arguments=arguments,
        kind=queue_type(arguments),
    )


def _restore_binding(vhost: VirtualHost, recorded: RecordedBinding) -> None:
    arguments, _ = decode_table(recorded.arguments)
    kind: DestinationKind = "exchange" if recorded.kind == "exchange" else "queue"
    binding = Binding(recorded.source, recorded.destination, kind, recorded.key, arguments)
    if not vhost.restore_binding(binding):
        raise LookupError("one of its ends is missing")
