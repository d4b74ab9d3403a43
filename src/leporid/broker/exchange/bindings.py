"""The bindings of one virtual host, and the rules for making and ending them.

Responsible for what may be bound and unbound, for where messages wait that a filter class is to
judge, and for recording what is durable. Must not know who asks: the permissions were checked
before; nor where a message goes (`topology`). Invariant: a fault leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from leporid.amqp.errors import Fault, NotFound
from leporid.broker.events.actor import actor
from leporid.broker.filter.filter_arguments import check_names, filter_of
from leporid.broker.memory import binding_bytes
from leporid.broker.names import exchange_in, queue_in
from leporid.broker.queue.queue import QueueState
from leporid.broker.stored import StoredBinding

if TYPE_CHECKING:
    from leporid.broker.events.events import Events
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.exchange.topology import Topology
    from leporid.broker.exchange.types import Binding
    from leporid.broker.exchange.verdict_queues import VerdictQueueState
    from leporid.broker.filter.filter_arguments import MessageFilter
    from leporid.broker.memory import Memory
    from leporid.broker.queue.queue import Owner
    from leporid.broker.registry import Steps
    from leporid.broker.stored import Recorder
    from leporid.broker.vhost import VirtualHost


class Bindings:
    """The bindings of one virtual host.

    Args:
        vhost: it.
        topology: its exchanges.
        recorder: told of what is durable.
        require_class: raises NotFound for a filter class that is not registered.
        memory: is charged for them.
        events: told of those that are made, and of those that end.
    """

    def __init__(
        self,
        vhost: VirtualHost,
        topology: Topology,
        recorder: Recorder,
        require_class: Callable[[str], object],
        memory: Memory,
        events: Events,
    ) -> None:
        self._vhost = vhost
        self._topology = topology
        self._recorder = recorder
        self._require_class = require_class
        self._memory = memory
        self._events = events

    def bind(self, binding: Binding, asker: Owner | None) -> Steps | None:
        """Bind; binding what is bound already changes nothing.

        Returns:
            What is left to do if the exchange has a history: give it to the destination, or wait
            until another bind that was equal has.

        Raises:
            NotFound: source or destination is missing, or the filter class.
            PreconditionFailed: the exchange cannot make sense of key or arguments, or there is
                something wrong with the filter.
            ResourceLocked: the queue belongs to another connection.
        """
        source, destination = self._ends(binding)
        if source is None:
            raise NotFound(f"no {exchange_in(self._vhost.name, binding.source)}")
        if destination is None:
            named = queue_in if binding.destination_kind == "queue" else exchange_in
            raise NotFound(f"no {named(self._vhost.name, binding.destination)}")
        source.router.validate(binding.key, binding.arguments)
        check_names(binding.arguments)
        wanted = filter_of(binding.arguments, self._require_class)
        if isinstance(destination, QueueState):
            destination.check_access(asker)
        if binding in source.outgoing:
            return self._vhost.histories.awaiting(binding)
        title = f"binding from {exchange_in(self._vhost.name, binding.source)}"
        self._memory.check_definition(title, binding_bytes(binding), actor())
        verdict_queue = self._vhost.verdict_queues.begin(binding, source, destination)
        self._add(binding, wanted, verdict_queue)
        if source.durable and destination.durable:
            self._recorder.put(StoredBinding.of(self._vhost.name, binding))
        self._events.binding_created(self._vhost.name, binding)
        left = self._vhost.histories.giving(source, binding, verdict_queue or destination, wanted)
        return None if left is None else self._giving(left, binding, destination)

    def _giving(
        self, left: Steps, binding: Binding, destination: ExchangeState | QueueState
    ) -> Steps:
        """Give a history; if that is refused, there is no binding."""
        try:
            yield from left
        except Fault:
            if self._topology.unbind(binding):
                self.ended((binding,), destination)
            raise

    def unbind(self, binding: Binding, asker: Owner) -> None:
        """Unbind; without such a binding, or without its ends, nothing changes.

        Raises:
            ResourceLocked: the queue belongs to another connection.
        """
        source, destination = self._ends(binding)
        if source is None or destination is None:
            return
        if isinstance(destination, QueueState) and binding in source.outgoing:
            destination.check_access(asker)
        if self._topology.unbind(binding):
            self.ended((binding,), destination)
            self._vhost.unbound((binding,))

    def restore(self, binding: Binding) -> bool:
        """Add a binding that was recorded; False if one of its ends is missing."""
        source, destination = self._ends(binding)
        if source is None or destination is None:
            return False
        # A class that is gone from the configuration keeps what it would judge waiting.
        wanted = filter_of(binding.arguments, lambda name: None)
        verdict_queue = self._vhost.verdict_queues.begin(binding, source, destination)
        self._add(binding, wanted, verdict_queue)
        return True

    def _add(
        self,
        binding: Binding,
        wanted: MessageFilter | None,
        verdict_queue: VerdictQueueState | None,
    ) -> None:
        account = self._memory.definitions_of(actor())
        self._topology.bind(binding, wanted, verdict_queue.key if verdict_queue else None, account)

    def make_recorded(self, binding: Binding, *, durable: bool) -> Steps | None:
        """Add a binding that is in the record, if it is durable; its ends were there once.

        If one of them is gone meanwhile, or is another one, the binding is dropped from the record.

        Returns:
            What is left to do, as `bind`.

        Raises:
            Fault: the exchange keeps messages, which cannot be given to the destination.
        """
        source, destination = self._ends(binding)
        lasts = all(end is not None and end.durable for end in (source, destination))
        if durable and not lasts:
            self._drop_record(binding)
            return None
        if source is None or destination is None or binding in source.outgoing:
            return None
        if source.router.history_length:
            try:
                return self.bind(binding, None)
            except Fault:
                if durable:
                    self._drop_record(binding)
                raise
        self.restore(binding)
        self._events.binding_created(self._vhost.name, binding)
        return None

    def _drop_record(self, binding: Binding) -> None:
        recorded = StoredBinding.of(self._vhost.name, binding)
        self._recorder.drop(StoredBinding, *recorded.identity)

    def restore_verdict_queue(self, number: int, binding: Binding) -> bool:
        """Make again where messages of a binding waited, which may be gone; False likewise."""
        destination = self._ends(binding)[1]
        if destination is not None:
            self._vhost.verdict_queues.restore(number, binding, destination)
        return destination is not None

    def ended(self, removed: Iterable[Binding], gone: ExchangeState | QueueState) -> None:
        """Record the end of bindings that `gone` is one end of."""
        for binding in removed:
            if all(end is None or end.durable for end in (gone, *self._ends(binding))):
                self._drop_record(binding)
            self._vhost.verdict_queues.end(binding)
            self._events.binding_deleted(self._vhost.name, binding)

    def left_unused(self, removed: Iterable[Binding]) -> list[ExchangeState]:
        """Return the auto-delete exchanges that lost their last binding with `removed`."""
        found = self._topology.exchanges
        sources = [found[name] for name in {each.source: None for each in removed} if name in found]
        return [each for each in sources if each.auto_delete and not each.in_use]

    def _ends(
        self, binding: Binding
    ) -> tuple[ExchangeState | None, ExchangeState | QueueState | None]:
        source = self._vhost.find_exchange(binding.source)
        if binding.destination_kind == "queue":
            return source, self._vhost.find_queue(binding.destination)
        return source, self._vhost.find_exchange(binding.destination)
