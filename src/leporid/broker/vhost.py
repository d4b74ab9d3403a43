"""One virtual host: its exchanges and queues, and the rules for changing them.

Responsible for what may be declared and deleted, for what goes with it (auto-delete, bindings of
what is gone), and for recording what is durable. Must not know who asks: the permissions were
checked before, in the order RabbitMQ checks them; nor the rules of bindings (`bindings`).

Invariant: what is durable here is what the recorded changes add up to, and a fault leaves
everything as it was. In a virtual host that is gone nothing is made.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from leporid.amqp.errors import BeingDeleted, NotFound, PreconditionFailed
from leporid.broker.access.limits import check_vhost_queues
from leporid.broker.events.actor import acting_steps, actor
from leporid.broker.events.events import EVENT_EXCHANGE
from leporid.broker.events.tracing import TRACE_EXCHANGE, Tracing
from leporid.broker.exchange.bindings import Bindings
from leporid.broker.exchange.delays import DelayedMessages, DelaysState, DelayStores
from leporid.broker.exchange.exchange import DEFAULT_EXCHANGE, ExchangeState
from leporid.broker.exchange.history import Histories
from leporid.broker.exchange.routing import Resolved, Routing
from leporid.broker.exchange.topology import PREDECLARED, Topology
from leporid.broker.exchange.types import Binding
from leporid.broker.exchange.verdict_queues import VerdictQueues
from leporid.broker.group.groups import Groups
from leporid.broker.memory import EXCHANGE_BYTES, queue_bytes, size_of
from leporid.broker.names import REPLY_PREFIX, REPLY_QUEUE, SYSTEM_PREFIX, exchange_in, queue_in
from leporid.broker.pipeline_runs import PipelineRuns
from leporid.broker.policy.governing import Governor
from leporid.broker.policy.policies import Policies
from leporid.broker.queue.pausing import Pauses
from leporid.broker.queue.queue import Consumers, ConsumerState, Owner, QueueState
from leporid.broker.queue.queue_types import (
    CLASSIC,
    QUORUM,
    STREAM,
    QueueType,
    check_permanent,
    check_queue_arguments,
)
from leporid.broker.registry import Registry, Steps, StepsTo
from leporid.broker.reservations import Reservations
from leporid.broker.settings import effects
from leporid.broker.settings.unknown_arguments import UnknownArguments
from leporid.broker.settings.values import DEDUPLICATION, Arguments
from leporid.broker.statistics import VirtualHostStatistics
from leporid.broker.stored import (
    Recorder,
    StoredExchange,
    StoredQueue,
)
from leporid.broker.stream import stream_arguments
from leporid.broker.stream.readers import OffsetTracking, skipped_messages
from leporid.broker.vhost_metadata import VhostMetadata
from leporid.engine.bounds.jobs import AWAITS
from leporid.engine.bounds.sharded_dict import ShardedDict
from leporid.engine.queue.counters import DeliveryCounts, Totals

if TYPE_CHECKING:
    from leporid.engine.engine import Engine

logger = logging.getLogger(__name__)

GIVEN_UP: Final[Mapping[str, str]] = {
    "expired": "they waited for a day",
    "backlog_full": "too many wait",
    "too_large": "they are above its limits by themselves",
}
"""Why the engine drops a message that waits for room in a queue."""


class VirtualHost(VhostMetadata):
    """The exchanges, queues and bindings under one name."""

    def __init__(self, name: str, registry: Registry) -> None:
        super().__init__(
            name,
            Recorder(name, registry.record),
            lambda: registry.events.vhost_set(self, new=False),
            lambda: registry.events.limits_set(self),
        )
        self.reserved = Reservations(name)
        self._left = False
        # Samples of its counters for the rates that management shows; a matter of that alone.
        self.recent: object = None
        self._registry = registry
        self._topology = Topology()
        policies = Policies(registry.configured_policies(name))
        redeclare = registry.redeclare_in(name)
        self.governor = Governor(
            self, self._recorder, self._topology, policies, redeclare, registry.events
        )
        self.unknown_arguments = UnknownArguments(
            name, registry.unknown_arguments_in(name), registry.engine
        )
        # Those of direct reply-to among them, which are not counted.
        self._queues: ShardedDict[str, QueueState] = ShardedDict()
        self._queue_count = 0
        self.consumers = Consumers()
        self._backlog_totals = Totals()
        self._totals = Totals(self._backlog_totals)
        self.offset_tracking = OffsetTracking(self._recorder, registry.engine)
        self.pipeline_runs = PipelineRuns(self._recorder, registry.memory)
        self.groups = Groups(self, self._recorder, registry)
        self.pauses = Pauses(self._recorder, lambda: self.groups)
        self.histories = Histories(self, self._recorder, registry.new_queue_id, registry.memory)
        self.dead_letter_counts = registry.dead_letter_counts
        self.verdict_queues = VerdictQueues(self, self._recorder, registry.new_queue_id)
        self.bindings = Bindings(
            self,
            self._topology,
            self._recorder,
            registry.filter_classes.require,
            registry.memory,
            registry.events,
        )
        self.routing = Routing(
            registry.engine,
            self._topology,
            self._queues,
            verdict_queues=self.verdict_queues.by_key,
            kept=self.histories.of,
            held=self._held,
        )
        self.delay_stores = DelayStores(
            registry.engine,
            self._recorder,
            registry.new_queue_id,
            self.routing.routing_due,
            self.routing.alternate,
        )
        self._given_up: Counter[str] = Counter()
        # Names of partitioned streams that `partitions` makes, or deletes, in steps.
        self.partitioned_changing: set[str] = set()
        for exchange, kind in PREDECLARED:
            self._predeclare(exchange, kind)
        self.tracing = Tracing(self, registry.traces)
        self._predeclare(TRACE_EXCHANGE, "topic", internal=True)
        if name == registry.events.vhost_name:
            registry.events.begin(self, self._predeclare(EVENT_EXCHANGE, "topic", internal=True))

    def _predeclare(self, name: str, kind: str, *, internal: bool = False) -> ExchangeState:
        flags = {"durable": True, "auto_delete": False, "internal": internal}
        return self.add_exchange(name, kind, **flags, arguments={})

    def _held(self, exchange: ExchangeState) -> DelaysState:
        return self.delay_stores.held(exchange)

    def __repr__(self) -> str:
        return f"<VirtualHost {self.name!r} queues={len(self._queues)}>"

    @property
    def totals(self) -> Totals:
        """The messages of all queues, without those of direct reply-to."""
        return self._totals

    @property
    def deliveries(self) -> DeliveryCounts:
        """What these queues have delivered since the start."""
        return self._registry.engine.queues.counts_in(self.name)

    @property
    def deleted(self) -> bool:
        """Whether it is gone, and another one may have its name."""
        return self._left

    @property
    def queue_count(self) -> int:
        """How many queues there are, without those of direct reply-to."""
        return self._queue_count

    @property
    def exchange_count(self) -> int:
        """How many exchanges there are."""
        return len(self._topology.exchanges)

    @property
    def binding_count(self) -> int:
        """How many bindings there are, without those that the default exchange has by itself."""
        return self._topology.binding_count

    def bindings_to(self, queue: QueueState) -> Collection[Binding]:
        """Return the bindings that lead to a queue, as of now."""
        return self._topology.bindings_to(queue.name)

    @property
    def policies(self) -> Policies:
        """The policies and operator policies."""
        return self.governor.policies

    def forget_routes_to(self, queue: QueueState) -> None:
        """A queue has become another to publishers."""
        self._topology.forget_routes_to(queue.name)

    @property
    def engine(self) -> Engine:
        """The engine."""
        return self._registry.engine

    # ------------------------------------------------------------------ looking

    def find_exchange(self, name: str) -> ExchangeState | None:
        """Return an exchange, None without one."""
        found = self._topology.exchanges.get(name)
        return None if found is None or found.deleted else found

    def exchanges(self) -> Iterable[ExchangeState]:
        """Go through the exchanges."""
        return (each for each in self._topology.exchanges.values() if not each.deleted)

    def all_exchanges(self) -> Iterator[ExchangeState]:
        """Go through all exchanges, as slowly as one likes; as `all_queues`."""
        return iter(self._topology.exchanges.values())

    def exchange(self, name: str) -> ExchangeState:
        """Return an exchange; raises NotFound without one."""
        exchange = self.find_exchange(name)
        if exchange is None:
            raise NotFound(f"no {exchange_in(self.name, name)}")
        return exchange

    def delays(self, exchange: str) -> DelayedMessages:
        """Return what waits in an exchange; raises NotFound without it."""
        return self.delay_stores.look(self.exchange(exchange).name)

    def find_queue(self, name: str) -> QueueState | None:
        """Return a queue, None without one; those of direct reply-to are nobody's to find."""
        found = None if name.startswith(REPLY_PREFIX) else self._queues.get(name)
        return None if found is None or found.deleted else found

    def awaits_replies(self, name: str) -> bool:
        """Say whether a channel waits for replies under that name of direct reply-to."""
        return name == REPLY_QUEUE or (name.startswith(REPLY_PREFIX) and name in self._queues)

    def queue(self, name: str) -> QueueState:
        """Return a queue; raises NotFound without one."""
        queue = self.find_queue(name)
        if queue is None:
            raise NotFound(f"no {queue_in(self.name, name)}")
        return queue

    def check_free(self, name: str) -> None:
        """Check that a queue of that name could be made.

        Raises:
            PreconditionFailed: there is one.
            BeingDeleted: one is being deleted.
        """
        found = self._queues.get(name)
        if found is not None and found.deleted:
            raise BeingDeleted(f"{queue_in(self.name, name)} is being deleted")
        self.reserved.check("queue", name)
        if found is not None:
            raise PreconditionFailed(f"{queue_in(self.name, name)} is there already")

    def queue_for(self, name: str, asker: Owner) -> QueueState:
        """Return a queue that `asker` may use; raises NotFound, or ResourceLocked."""
        queue = self.queue(name)
        queue.check_access(asker)
        return queue

    def queues(self) -> Iterator[QueueState]:
        """Go through the queues, except those of direct reply-to."""
        return (
            queue
            for queue in self._queues.values()
            if not queue.deleted and not queue.name.startswith(REPLY_PREFIX)
        )

    def all_queues(self) -> Iterator[QueueState]:
        """Go through all queues, those of direct reply-to as well, as slowly as one likes.

        Those that are there all the time are met once. Others may come and go meanwhile: some may
        be deleted when they are met. A list of all of them would be looked through by Python's
        collector while it is young, which takes 5 ms for 50,000.
        """
        return iter(self._queues.values())

    # ------------------------------------------------------------------ exchanges

    def create_exchange(
        self,
        name: str,
        kind: str,
        *,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Arguments,
    ) -> ExchangeState:
        """Add an exchange of a type and name that were checked, and record it.

        Raises:
            PreconditionFailed: its type cannot make sense of an argument.
        """
        self.check_there()
        self.check_exchange_free(name)
        size = size_of(EXCHANGE_BYTES, name, arguments)
        self._registry.memory.check_definition(exchange_in(self.name, name), size, actor())
        exchange = self.add_exchange(
            name,
            kind,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
        )
        self._recorder.put(StoredExchange.of(self.name, exchange))
        self._registry.events.exchange_created(self.name, exchange)
        return exchange

    def add_exchange(
        self,
        name: str,
        kind: str,
        *,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Arguments,
    ) -> ExchangeState:
        """Add an exchange; nothing is recorded.

        Raises:
            BeingDeleted: one of that name is.
        """
        self.check_exchange_free(name)

        def resolving(key: str, properties: bytes | None) -> StepsTo[Resolved]:
            return self.routing.resolving(exchange, key, properties)

        routes = self._registry.engine.route_cache(name, resolving, True, self._totals)
        governed = self.governor.of_exchange(name)
        chance = self._registry.random_number
        exchange = ExchangeState(
            name, kind, durable, auto_delete, internal, arguments, routes, governed, chance
        )
        exchange.kept_bytes = size_of(EXCHANGE_BYTES, name, arguments)
        exchange.kept_by = self._registry.memory.definitions_of(actor())
        exchange.kept_by.add(exchange.kept_bytes)
        self.routing.follow_bindings(exchange)
        self._topology.add_exchange(exchange)
        self.histories.begin(exchange)
        self.delay_stores.prepare(exchange, routes)
        return exchange

    def check_exchange_free(self, name: str) -> None:
        """Raise BeingDeleted if an exchange of a name that nobody finds cannot be made yet."""
        self.reserved.check("exchange", name)
        if name in self._topology.exchanges:
            raise BeingDeleted(f"{exchange_in(self.name, name)} is being deleted")

    def delete_exchange(self, exchange: ExchangeState, *, if_unused: bool) -> None:
        """Delete an exchange with the bindings from it and to it, as a job.

        Raises:
            PreconditionFailed: it should be unused, and is not.
        """
        self._start(self.deleting_exchange(exchange, if_unused=if_unused))

    def deleting_exchange(self, exchange: ExchangeState, *, if_unused: bool) -> Steps:
        """The same, in steps; from the first one on nobody finds it."""
        if if_unused and exchange.in_use:
            raise PreconditionFailed(f"{exchange_in(self.name, exchange.name)} in use")
        yield from self._deleting_exchanges([exchange])

    def _deleting_exchanges(self, pending: list[ExchangeState]) -> Steps:
        """Remove exchanges, and the auto-delete ones above that are left without bindings.

        A loop, because clients choose how many stand above each other.
        """
        while pending:
            exchange = pending.pop()
            if exchange.deleted:
                continue
            # Those that come with a virtual host are not told as created, either.
            if exchange.name != DEFAULT_EXCHANGE and not exchange.name.startswith(SYSTEM_PREFIX):
                self._registry.events.exchange_deleted(self.name, exchange.name)
            for binding in self._topology.remove_exchange(exchange.name):
                self.bindings.ended((binding,), exchange)
                pending.extend(self.bindings.left_unused((binding,)))
                yield None
            self.verdict_queues.destination_gone(exchange)
            self.delay_stores.close(exchange)
            if exchange.durable:
                self._recorder.drop(StoredExchange, self.name, exchange.name)
            self.histories.end(exchange)
            assert exchange.kept_by is not None
            exchange.kept_by.release(exchange.kept_bytes)
            exchange.routes.end()
            yield None

    def unbound(self, removed: Iterable[Binding]) -> None:
        """Bindings are gone: the auto-delete exchanges whose last ones they were go with them."""
        left = self.bindings.left_unused(removed)
        if left:
            self._start(self._deleting_exchanges(left))

    def _start(self, steps: StepsTo[object]) -> None:
        """Have something done that nobody waits for."""
        self._registry.engine.jobs.start(steps)

    # ------------------------------------------------------------------ queues

    def create_queue(
        self,
        name: str,
        *,
        durable: bool,
        auto_delete: bool,
        arguments: Arguments,
        owner: Owner | None,
    ) -> QueueState:
        """Add a queue of a name that was checked.

        Raises:
            PreconditionFailed: the arguments are not such as a queue can have.
        """
        kind = self.check_queue(
            name,
            durable=durable,
            auto_delete=auto_delete,
            exclusive=owner is not None,
            arguments=arguments,
        )
        self.check_there()
        self.check_free(name)
        self.check_queue_limit(name)
        size = queue_bytes(name, arguments)
        self._registry.memory.check_definition(queue_in(self.name, name), size, actor())
        queue_id = self._registry.new_queue_id() if durable else 0
        queue = self.make_queue(
            name,
            queue_id=queue_id,
            auto_delete=auto_delete,
            arguments=arguments,
            kind=kind,
            owner=owner,
        )
        self._recorder.put(StoredQueue.of(self.name, queue))
        self._registry.churn.queues_created += 1
        self._registry.events.queue_created(queue)
        return queue

    def check_queue(
        self, name: str, *, durable: bool, auto_delete: bool, exclusive: bool, arguments: Arguments
    ) -> QueueType:
        """Check what `create_queue` is to make; returns its type.

        Raises:
            PreconditionFailed: the arguments are not such as a queue can have.
        """
        title = queue_in(self.name, name)
        kind = check_queue_arguments(title, arguments)
        if not kind.transient:
            check_permanent(title, durable=durable, auto_delete=auto_delete, exclusive=exclusive)
        if kind is STREAM:
            stream_arguments.check_segment_size(arguments)
        return kind

    def make_queue(
        self,
        name: str,
        *,
        queue_id: int = 0,
        auto_delete: bool = False,
        arguments: Arguments | None = None,
        kind: QueueType = CLASSIC,
        owner: Owner | None = None,
    ) -> QueueState:
        """Add a queue, durable if it has a number; nothing is checked and nothing recorded.

        Raises:
            BeingDeleted: one of that name is.
        """
        self.check_free(name)
        durable = queue_id != 0
        engine = self._registry.engine
        stream = engine.stream(queue_id, name) if kind is STREAM else None
        unique = (arguments or {}).get(DEDUPLICATION) is True
        make = engine.unique_queue if unique else engine.queue
        queue = QueueState(
            id=queue_id,
            vhost=self.name,
            name=name,
            durable=durable,
            auto_delete=auto_delete,
            arguments=arguments or {},
            type=kind,
            engine=stream or make(queue_id, name, durable),
            consumers=self.consumers,
            owner=owner,
            stream=stream,
        )
        if stream is not None:
            stream.on_skipped = lambda skips: engine.jobs.start(
                self.offset_tracking.skip(queue, skips)
            )
        if kind is QUORUM:
            self._registry.made_quorum_queue(queue.title)
        queue.kept_bytes = queue_bytes(name, queue.arguments)
        queue.kept_by = self._registry.memory.definitions_of(actor())
        queue.kept_by.add(queue.kept_bytes)
        queue.governed = self.governor.of_queue(queue)
        effects.apply(self, queue)
        self.used(queue)
        self._queues[name] = queue
        self._topology.add_queue(name)
        if not name.startswith(REPLY_PREFIX):
            self._queue_count += 1
            queue.engine.count_in(self._totals)
            queue.engine.count_as(kind.name, self.name)
        return queue

    def remove_queue(self, queue: QueueState) -> None:
        """Undo `make_queue`; nothing is bound to it."""
        queue.deleted = True
        self._registry.unused.forget(queue)
        for _ in self._topology.remove_queue(queue.name):
            pass
        self._forget_queue(queue)

    def _forget_queue(self, queue: QueueState) -> None:
        del self._queues[queue.name]
        assert queue.kept_by is not None
        queue.kept_by.release(queue.kept_bytes)

    def delete_queue(self, queue: QueueState) -> None:
        """Delete a queue and cancel its consumers, as a job."""
        self._start(acting_steps(None, self.deleting_queue(queue)))

    def deleting_queue(self, queue: QueueState) -> StepsTo[int]:
        """The same, in steps; from the first one on nobody finds it.

        Returns how many ready messages went, 0 if somebody else is deleting it.
        """
        if queue.deleted:
            return 0
        queue.deleted = True
        self._queue_count -= 1
        self._registry.churn.queues_deleted += 1
        queue.engine.uncount()
        for subscription in queue.subscriptions:
            if subscription in queue.subscriptions:  # its channel may have ended meanwhile
                subscription.subscriber.lose(subscription)
            yield None
        self._registry.unused.forget(queue)
        for binding in self._topology.remove_queue(queue.name):
            self.bindings.ended((binding,), queue)
            self.unbound((binding,))
            yield None
        self._forget_queue(queue)
        ready = queue.engine.retire()
        self.verdict_queues.destination_gone(queue)
        for reader in queue.reader_offsets:
            self.offset_tracking.drop_recorded(queue, reader)
            yield None
        self.pauses.deleted(queue)
        self._registry.events.queue_deleted(queue)
        if queue.durable:
            self._recorder.drop(StoredQueue, queue.id)
        if queue.owner is not None:
            queue.owner.disown(queue)
        return ready

    def unsubscribed(self, subscription: ConsumerState) -> None:
        """A consumer is gone from its channel: take it off its queue too."""
        queue = subscription.queue
        queue.remove(subscription)
        if queue.subscriptions or queue.deleted:
            return
        if queue.auto_delete:
            self.delete_queue(queue)
        else:
            self.used(queue)

    def used(self, queue: QueueState) -> None:
        """A queue is in use: if it goes when it is not, that time begins anew."""
        self._registry.unused.used(queue)

    def gave_up(self, queue: QueueState, reason: str) -> None:
        """A message that the broker sent to a queue does not wait for room there any longer."""
        self._given_up[reason] += 1
        if not queue.told_given_up:
            queue.told_given_up = True
            logger.warning(
                "messages that %s had no room for are dropped: %s; further ones are counted only",
                queue.title,
                GIVEN_UP[reason],
            )

    # ------------------------------------------------------------------ streams

    def stream(self, name: str) -> QueueState:
        """Return a stream; raises NotFound without one, also where a queue has that name."""
        queue = self.find_queue(name)
        if queue is None or queue.stream is None:
            other = "" if queue is None else ": it is a queue"
            raise NotFound(f"no stream '{name}' in vhost '{self.name}'{other}")
        return queue

    def reader_offsets(self, stream: str) -> dict[str, int]:
        """Return up to which message each named reader has read; raises NotFound."""
        queue = self.stream(stream)
        for _ in self.offset_tracking.saving_of(queue):
            pass
        return dict(queue.reader_offsets)

    def reader_offset(self, stream: str, reader: str) -> int | None:
        """Return up to which message a reader has read, None if unknown; raises NotFound."""
        queue = self.stream(stream)
        self.offset_tracking.save_of(queue, reader)
        return queue.reader_offsets.get(reader)

    def skipped_messages(self, stream: str, reader: str) -> int:
        """Return how many messages a named reader missed; raises NotFound without the stream."""
        return skipped_messages(self.stream(stream), reader)

    def set_reader_offset(self, stream: str, reader: str, offset: int, user: str = "") -> None:
        """Say which message a reader has read last; raises as `stream` and `OffsetTracking.set`."""
        self.offset_tracking.set(self.stream(stream), reader, offset, user)

    def drop_reader_offset(self, stream: str, reader: str) -> bool:
        """Forget a reader; returns whether it was known. Raises NotFound without the stream."""
        return self.offset_tracking.drop(self.stream(stream), reader)

    # ------------------------------------------------------------------ the rest

    def check_queue_limit(self, name: str, more: int = 1) -> None:
        """Check that there may be so many more queues, of which one has that name.

        Raises:
            PreconditionFailed: the limit of the virtual host is reached.
        """
        count = self._queue_count + more - 1
        check_vhost_queues(self.limits, count, vhost=self.name, queue=name)

    def leave(self) -> None:
        """The virtual host is gone: nothing is recorded or made in it from now on."""
        self._left = True
        self._recorder.close()

    def check_there(self) -> None:
        """Raise NotFound if the virtual host is gone; somebody was busy with it meanwhile."""
        if self._left:
            raise NotFound(f"no vhost '{self.name}'")

    def emptying(self) -> Steps:
        """Delete all that is there, in steps; the virtual host is gone, and nobody has it open."""
        self.groups.close()
        for queue in self.all_queues():
            yield from self.deleting_queue(queue)
            yield None
        while self._queues:
            yield AWAITS  # somebody else is at the last ones
        for exchange in self.all_exchanges():
            yield from self._deleting_exchanges([exchange])
        while self._topology.exchanges:
            yield AWAITS
        self.verdict_queues.close_all()
        self.histories.end_all()
        yield from self.pipeline_runs.emptying()
        self._registry.engine.forget_deliveries(self.name)

    def statistics(self) -> VirtualHostStatistics:
        """Count what there is."""
        return VirtualHostStatistics(
            name=self.name,
            exchange_count=len(self._topology.exchanges),
            binding_count=self._topology.binding_count,
            queue_count=self._queue_count,
            paused_count=self.pauses.count,
            consumer_count=self.consumers.count,
            ready_count=self._totals.ready,
            unacked_count=self._totals.unacked,
            held_count=self._totals.held,
            delays=self.delay_stores.statistics(),
            backlog=self._backlog_totals.ready,
            given_up=dict(self._given_up),
            remembered=self.histories.remembered,
            retrying=self.groups.retrying,
            unknown_arguments=dict(self.unknown_arguments.counts),
        )
