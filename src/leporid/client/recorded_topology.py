"""What a program declared, so that it can be declared again on another connection.

Responsible for remembering exchanges, queues and bindings in the order in which they were declared.
It must not know connections. Invariant: a binding is remembered only as long as what it binds; a
queue whose name the broker made is known by its record, whatever the name is now.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from leporid.amqp.methods import (
    ExchangeBind,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
)
from leporid.amqp.tables import Value, encode_table


@dataclass(slots=True, eq=False)
class QueueRecord:
    """A queue that was declared.

    Attributes:
        declare: the method; its queue is "" if the broker makes the name.
        name: what it is called now.
        error: why it could not be declared again, or None.
    """

    declare: QueueDeclare
    name: str
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """What a binding binds.

    Attributes:
        destination: a queue's record, or the name of a queue that is not known here or of an
            exchange.
        to_exchange: the destination is an exchange.
    """

    destination: QueueRecord | str
    to_exchange: bool
    source: str
    key: str
    arguments: dict[str, Value] = field(compare=False)
    encoded: bytes

    def method(self) -> Method:
        """Returns the method that makes the binding."""
        name = self.destination if isinstance(self.destination, str) else self.destination.name
        if self.to_exchange:
            return ExchangeBind(name, self.source, self.key, False, self.arguments)
        return QueueBind(name, self.source, self.key, False, self.arguments)


class RecordedTopology:
    """What was declared on a connection."""

    def __init__(self) -> None:
        self._exchanges: dict[str, ExchangeDeclare] = {}
        self._queues: dict[str, QueueRecord] = {}
        self._bindings: dict[Binding, None] = {}

    def __repr__(self) -> str:
        return (
            f"<RecordedTopology of {len(self._exchanges)} exchanges, {len(self._queues)} queues, "
            f"{len(self._bindings)} bindings>"
        )

    def add_exchange(self, declare: ExchangeDeclare) -> None:
        """An exchange was declared."""
        self._exchanges[declare.exchange] = declare

    def add_queue(self, declare: QueueDeclare, name: str) -> QueueRecord:
        """A queue was declared, and is called so."""
        record = self._queues.get(name)
        if record is None:
            record = self._queues[name] = QueueRecord(declare, name)
        else:
            record.declare = replace(declare, queue=record.declare.queue)
            record.error = None
        return record

    def queue(self, name: str) -> QueueRecord | None:
        """The record of a queue; None: it was not declared here."""
        return self._queues.get(name)

    def rename(self, record: QueueRecord, name: str) -> None:
        """The broker made another name for a queue."""
        self._queues.pop(record.name, None)
        record.name = name
        self._queues[name] = record

    def bind(self, binding: Binding) -> None:
        """A binding was made."""
        self._bindings[binding] = None

    def unbind(self, binding: Binding) -> None:
        """A binding was removed."""
        self._bindings.pop(binding, None)

    def binding(
        self,
        destination: str,
        source: str,
        key: str,
        arguments: dict[str, Value],
        *,
        to_exchange: bool,
    ) -> Binding:
        """Makes what tells a binding from others."""
        known = None if to_exchange else self._queues.get(destination)
        return Binding(
            destination if known is None else known,
            to_exchange,
            source,
            key,
            arguments,
            encode_table(dict(sorted(arguments.items()))),
        )

    def forget_queue(self, name: str) -> None:
        """A queue is deleted, and its bindings with it."""
        record = self._queues.pop(name, None)
        self._forget_bindings(name, record, to_exchange=False)

    def forget_exchange(self, name: str) -> None:
        """An exchange is deleted, and its bindings with it."""
        self._exchanges.pop(name, None)
        self._forget_bindings(name, None, to_exchange=True)

    def _forget_bindings(self, name: str, record: QueueRecord | None, *, to_exchange: bool) -> None:
        for binding in list(self._bindings):
            own = binding.to_exchange == to_exchange and binding.destination in (name, record)
            if own or (to_exchange and binding.source == name):
                del self._bindings[binding]

    # ------------------------------------------------------------------ in order

    def exchanges(self) -> Iterator[ExchangeDeclare]:
        """What declares the exchanges again."""
        return iter(list(self._exchanges.values()))

    def queues(self) -> Iterator[QueueRecord]:
        """The queues to declare again."""
        return iter(list(self._queues.values()))

    def bindings(self) -> Iterator[Binding]:
        """The bindings to make again."""
        return iter(list(self._bindings))
