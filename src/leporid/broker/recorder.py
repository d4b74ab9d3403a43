"""Turns what happens in a virtual host into changes to be recorded.

Responsible for recording what is durable and nothing else. Must not know who keeps the record.
Invariant: bindings end before what they are between, and readers before their stream, as the
changes promise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from leporid.amqp.tables import encode_table
from leporid.broker.changes import (
    Change,
    DestinationKind,
    DropBinding,
    DropCache,
    DropDelays,
    DropExchange,
    DropGroup,
    DropGroupRetries,
    DropPolicy,
    DropQueue,
    DropReaderOffset,
    DropStaging,
    PutBinding,
    PutCache,
    PutDelays,
    PutExchange,
    PutGroup,
    PutGroupRetries,
    PutPolicy,
    PutQueue,
    PutReaderOffset,
    PutStaging,
)
from leporid.broker.exchange import Exchange
from leporid.broker.exchanges import Binding
from leporid.broker.policies import Policy
from leporid.broker.queues import QueueState

if TYPE_CHECKING:
    from leporid.broker.members import Group

End: TypeAlias = Exchange | QueueState


class Recorder:
    """Records for one virtual host."""

    def __init__(self, vhost: str, record: Callable[[Change], None]) -> None:
        self._vhost = vhost
        self._record = record

    def added_exchange(self, exchange: Exchange) -> None:
        """An exchange was declared."""
        if exchange.durable:
            self._record(
                PutExchange(
                    self._vhost,
                    exchange.name,
                    exchange.type,
                    exchange.auto_delete,
                    exchange.internal,
                    encode_table(exchange.arguments),
                )
            )

    def removed_exchange(self, exchange: Exchange) -> None:
        """An exchange is gone."""
        if exchange.durable:
            self._record(DropExchange(self._vhost, exchange.name))

    def added_delays(self, number: int, exchange: Exchange) -> None:
        """An exchange that is durable keeps messages from now on."""
        self._record(PutDelays(number, self._vhost, exchange.name))

    def removed_delays(self, number: int) -> None:
        """It does not any more."""
        self._record(DropDelays(number))

    def added_queue(self, queue: QueueState) -> None:
        """A queue was declared."""
        if queue.durable:
            arguments = encode_table(queue.arguments)
            self._record(PutQueue(queue.id, self._vhost, queue.name, queue.auto_delete, arguments))

    def removed_queue(self, queue: QueueState) -> None:
        """A queue is gone."""
        for reader in queue.reader_offsets:
            self.dropped_reader(queue, reader)
        if queue.durable:
            self._record(DropQueue(queue.id))

    def moved_reader(self, queue: QueueState, reader: str) -> None:
        """A named reader of a stream has another offset; streams are always durable."""
        offset = queue.reader_offsets[reader]
        self._record(PutReaderOffset(self._vhost, queue.name, reader, offset))

    def dropped_reader(self, queue: QueueState, reader: str) -> None:
        """A named reader has none any more."""
        self._record(DropReaderOffset(self._vhost, queue.name, reader))

    def put_group(self, group: Group) -> None:
        """A group was made, has another filter, or has no members any more."""
        self._record(
            PutGroup(
                self._vhost,
                group.stream,
                group.name,
                group.version,
                encode_table(group.agreed),
                group.used_ms,
            )
        )

    def dropped_group(self, group: Group) -> None:
        """A group is gone."""
        self._record(DropGroup(self._vhost, group.stream, group.name))

    def added_group_retries(self, number: int, group: Group) -> None:
        """A group keeps from now on what its members give back."""
        self._record(PutGroupRetries(number, self._vhost, group.stream, group.name))

    def dropped_group_retries(self, number: int) -> None:
        """It does not any more."""
        self._record(DropGroupRetries(number))

    def added_cache(self, number: int, exchange: str) -> None:
        """A durable exchange remembers messages."""
        self._record(PutCache(number, self._vhost, exchange))

    def dropped_cache(self, number: int) -> None:
        """It is gone."""
        self._record(DropCache(number))

    def put_policy(self, policy: Policy) -> None:
        """A policy was set."""
        self._record(
            PutPolicy(
                self._vhost,
                policy.operator,
                policy.name,
                policy.pattern,
                policy.apply_to,
                policy.priority,
                encode_table(policy.definition),
            )
        )

    def dropped_policy(self, name: str, *, operator: bool) -> None:
        """A policy is gone."""
        self._record(DropPolicy(self._vhost, operator, name))

    def added_staging(self, number: int, binding: Binding) -> None:
        """Messages of a durable binding wait for a filter class from now on."""
        self._record(PutStaging(number, self._vhost, *_fields(binding)))

    def removed_staging(self, number: int) -> None:
        """They do not any more."""
        self._record(DropStaging(number))

    def bound(self, binding: Binding, source: End, destination: End) -> None:
        """A binding was made; it lasts as long as both of its ends do."""
        if source.durable and destination.durable:
            self._record(PutBinding(self._vhost, *_fields(binding)))

    def unbound(self, binding: Binding, *ends: End) -> None:
        """A binding is gone; `ends` are those of it that are known to be there, or were."""
        if all(end.durable for end in ends):
            self._record(DropBinding(self._vhost, *_fields(binding)))


def _fields(binding: Binding) -> tuple[str, str, DestinationKind, str, bytes]:
    return (
        binding.source,
        binding.destination,
        binding.destination_kind,
        binding.key,
        encode_table(binding.arguments),
    )
