"""Rebuilding virtual hosts from the definitions that were recorded.

Responsible for making them in an order in which each finds what it needs. Must not know where
they were recorded. Invariant: nothing is recorded again, and a definition that makes no sense is
reported and left out instead of keeping the broker from starting.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TypeAlias

from leporid.amqp.errors import Fault
from leporid.amqp.tables import decode_table
from leporid.broker.exchanges import Binding, DestinationKind
from leporid.broker.policies import PolicyError, make_policy
from leporid.broker.queue_types import queue_type
from leporid.broker.vhost import VirtualHost

logger = logging.getLogger(__name__)


# The fields of the changes that put them, in that order.
RecordedExchange: TypeAlias = tuple[str, str, str, bool, bool, bytes]
RecordedDelays: TypeAlias = tuple[int, str, str]
RecordedQueue: TypeAlias = tuple[int, str, str, bool, bytes]
RecordedBinding: TypeAlias = tuple[str, str, str, str, str, bytes]
RecordedStaging: TypeAlias = tuple[int, str, str, str, str, str, bytes]
RecordedReaderOffset: TypeAlias = tuple[str, str, str, int]
RecordedGroup: TypeAlias = tuple[str, str, str, int, bytes, int]
RecordedGroupRetries: TypeAlias = tuple[int, str, str, str]
RecordedCache: TypeAlias = tuple[int, str, str]
RecordedPolicy: TypeAlias = tuple[str, bool, str, str, str, int, bytes]
RecordedFilterClass: TypeAlias = tuple[str, int, str, bytes]


class Snapshot(Protocol):
    """Everything that was recorded."""

    @property
    def vhosts(self) -> Iterable[str]:
        """The names of the virtual hosts; they are made before the rest is applied."""

    @property
    def policies(self) -> Iterable[RecordedPolicy]:
        """The policies of both kinds."""

    @property
    def filter_classes(self) -> Iterable[RecordedFilterClass]:
        """What administrators registered; made before the rest is applied."""

    @property
    def exchanges(self) -> Iterable[RecordedExchange]:
        """The durable exchanges."""

    @property
    def caches(self) -> Iterable[RecordedCache]:
        """What they remember of messages."""

    @property
    def delays(self) -> Iterable[RecordedDelays]:
        """Where durable exchanges keep delayed messages."""

    @property
    def queues(self) -> Iterable[RecordedQueue]:
        """The durable queues."""

    @property
    def bindings(self) -> Iterable[RecordedBinding]:
        """The bindings between durable ends."""

    @property
    def stagings(self) -> Iterable[RecordedStaging]:
        """Where messages of bindings wait for filter classes."""

    @property
    def reader_offsets(self) -> Iterable[RecordedReaderOffset]:
        """How far the named readers of streams were."""

    @property
    def groups(self) -> Iterable[RecordedGroup]:
        """The groups of readers."""

    @property
    def group_retries(self) -> Iterable[RecordedGroupRetries]:
        """Where groups keep what their members gave back."""

    @property
    def next_queue_id(self) -> int:
        """The lowest number that no queue ever had."""


def restore(snapshot: Snapshot, vhosts: Mapping[str, VirtualHost]) -> None:
    """Fill virtual hosts with what was recorded of them."""
    # First, so that nothing is ever without the limits that they set.
    for policy in snapshot.policies:
        with _reported("policy", policy):
            _restore_policy(vhosts, policy)
    for vhost in vhosts.values():
        vhost.governor.follow()  # the predeclared exchanges are there already
    for number, vhost_name, name in snapshot.caches:
        with _reported("cache of an exchange", (number, vhost_name, name)):
            vhosts[vhost_name].histories.expect(name, number)
    for exchange in snapshot.exchanges:
        with _reported("exchange", exchange):
            _restore_exchange(vhosts, exchange)
    for delays in snapshot.delays:
        with _reported("store of delayed messages", delays):
            _restore_delays(vhosts, delays)
    for queue in snapshot.queues:
        with _reported("queue", queue):
            _restore_queue(vhosts, queue)
    for staging in snapshot.stagings:
        with _reported("place of what waits for a filter class", staging):
            _restore_staging(vhosts, staging)
    for binding in snapshot.bindings:
        with _reported("binding", binding):
            _restore_binding(vhosts, binding)
    for offset in snapshot.reader_offsets:
        with _reported("offset of a reader", offset):
            _restore_reader_offset(vhosts, offset)
    for group in snapshot.groups:
        with _reported("group", group):
            _restore_group(vhosts, group)
    for retries in snapshot.group_retries:
        with _reported("retries of a group", retries):
            number, vhost_name, stream, name = retries
            vhosts[vhost_name].groups.restore_retries(stream, name, number)


@contextmanager
def _reported(kind: str, recorded: tuple[object, ...]) -> Iterator[None]:
    """Log that one definition could not be restored, instead of failing."""
    try:
        yield
    except (Fault, LookupError, PolicyError) as error:
        logger.error("recorded %s %r is left out: %s", kind, recorded, error)


def _restore_policy(vhosts: Mapping[str, VirtualHost], recorded: RecordedPolicy) -> None:
    vhost, operator, name, pattern, apply_to, priority, definition = recorded
    policy = make_policy(
        name,
        pattern,
        decode_table(definition)[0],
        priority=priority,
        apply_to=apply_to,
        operator=operator,
    )
    vhosts[vhost].policies.put(policy)


def _restore_exchange(vhosts: Mapping[str, VirtualHost], recorded: RecordedExchange) -> None:
    vhost, name, kind, auto_delete, internal, arguments = recorded
    vhosts[vhost].add_exchange(
        name,
        kind,
        durable=True,
        auto_delete=auto_delete,
        internal=internal,
        arguments=decode_table(arguments)[0],
    )


def _restore_delays(vhosts: Mapping[str, VirtualHost], recorded: RecordedDelays) -> None:
    number, vhost, exchange = recorded
    vhosts[vhost].delay_stores.restore(number, vhosts[vhost].exchange(exchange))


def _restore_queue(vhosts: Mapping[str, VirtualHost], recorded: RecordedQueue) -> None:
    number, vhost, name, auto_delete, encoded = recorded
    arguments, _ = decode_table(encoded)
    vhosts[vhost].make_queue(
        name,
        queue_id=number,
        auto_delete=auto_delete,
        arguments=arguments,
        kind=queue_type(arguments),
    )


def _restore_staging(vhosts: Mapping[str, VirtualHost], recorded: RecordedStaging) -> None:
    number, vhost, source, destination, kind, key, arguments = recorded
    binding = _binding(source, destination, kind, key, arguments)
    if not vhosts[vhost].bindings.restore_staging(number, binding):
        raise LookupError("its destination is missing")


def _binding(
    source: str, destination: str, recorded_kind: str, key: str, arguments: bytes
) -> Binding:
    kind: DestinationKind = "exchange" if recorded_kind == "exchange" else "queue"
    return Binding(source, destination, kind, key, decode_table(arguments)[0])


def _restore_binding(vhosts: Mapping[str, VirtualHost], recorded: RecordedBinding) -> None:
    vhost, source, destination, kind, key, arguments = recorded
    if not vhosts[vhost].bindings.restore(_binding(source, destination, kind, key, arguments)):
        raise LookupError("one of its ends is missing")


def _restore_reader_offset(
    vhosts: Mapping[str, VirtualHost], recorded: RecordedReaderOffset
) -> None:
    vhost, stream, reader, offset = recorded
    vhosts[vhost].stream(stream).reader_offsets[reader] = offset


def _restore_group(vhosts: Mapping[str, VirtualHost], recorded: RecordedGroup) -> None:
    vhost, stream, name, version, arguments, used_ms = recorded
    vhosts[vhost].groups.restore(stream, name, version, decode_table(arguments)[0], used_ms)
