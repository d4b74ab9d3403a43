"""Messages that an exchange keeps: a history for later bindings, or a deduplication cache.

Responsible for the hidden queue that holds them, in which a message is one more entry for its
record, and is dropped from the head as in any queue with limits; and for publishing a history to a
new binding. Must not know which messages are kept: the exchange's type does.

Invariant: what is kept is bounded. A history is gone after a restart. The cache of a durable
exchange is restored, as the id of its queue is recorded before the first message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leporid.amqp.errors import Fault, PreconditionFailed
from leporid.broker.events.actor import actor
from leporid.broker.exchange.types import DeduplicationRouter
from leporid.broker.exchange.verdict_queues import VerdictQueueState
from leporid.broker.names import exchange_in
from leporid.broker.queue.queue import QueueState
from leporid.broker.stored import StoredCache
from leporid.engine.bounds.jobs import AWAITS
from leporid.engine.queue.browse import snapshot
from leporid.engine.queue.counters import Totals
from leporid.engine.wire.headers import header_of, texts_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.exchange.types import Binding
    from leporid.broker.filter.filter_arguments import MessageFilter
    from leporid.broker.memory import Memory
    from leporid.broker.registry import Steps, StepsTo
    from leporid.broker.stored import Recorder
    from leporid.broker.vhost import VirtualHost
    from leporid.engine.engine import Engine
    from leporid.engine.queue.queue import Queue

BYTES_MAX: Final = 64 * 1024 * 1024
"""Of all bodies of one history: whoever declares exchanges with long histories should not be able
to fill the memory with a few."""


class HistoryState:
    """What one exchange keeps; stands among the queues of a route.

    Attributes:
        name: For messages that say in which queues they died: none ever died here.
        engine: The engine's half, as a queue has it.
    """

    name: Final = ""

    def __init__(self, engine: Engine, exchange: str, length: int) -> None:
        self._engine = engine
        self.engine = engine.queue(0, f"history of {exchange}", False)
        self.engine.private = True
        self.engine.set_limits(max_length=length, max_bytes=BYTES_MAX, overflow="drop-head")

    def __repr__(self) -> str:
        return f"<History messages={self.engine.ready_count}>"

    def messages(self) -> Iterator[tuple[str, str, bytes, bytes]]:
        """Go through what is kept when the first is taken, oldest first."""
        return snapshot(self.engine)

    def forget(self) -> None:
        """The exchange is gone."""
        self.engine.retire()


class CacheState:
    """What one exchange remembers; stands among the queues of a route, as a History does.

    Attributes:
        id: The number it is recorded under; 0 if it ends with the process.
    """

    name: Final = ""

    def __init__(self, engine: Engine, exchange: ExchangeState, number: int) -> None:
        router = exchange.router
        assert isinstance(router, DeduplicationRouter)
        self.id = number
        self.engine = router.cache = engine.cache(
            number,
            f"cache of {exchange.name}",
            number != 0,
            size=router.cache_size,
            ttl_ms=router.ttl_ms,
        )

    def __repr__(self) -> str:
        return f"<Memory messages={self.engine.ready_count}>"

    def forget(self) -> None:
        """The exchange is gone."""
        self.engine.retire()


class HistoryReplay:
    """A history on its way to one binding.

    Attributes:
        ended: Whether nothing more is given.
        fault: Why not all was given; None: it was, or one end or the binding is gone.
    """

    def __init__(self) -> None:
        self.ended = False
        self.fault: Fault | None = None


class Histories:
    """What a virtual host's exchanges keep and remember.

    Args:
        vhost: where a message goes that comes to an exchange once more.
        recorder: told of the memories that last.
        new_id: gives a number that no durable queue ever had.
        memory: refuses copies above its watermark.
    """

    def __init__(
        self,
        vhost: VirtualHost,
        recorder: Recorder,
        new_id: Callable[[], int],
        memory: Memory,
    ) -> None:
        self._vhost = vhost
        self._memory = memory
        self._recorder = recorder
        self._new_id = new_id
        self._recorded: dict[str, int] = {}
        self._kept: dict[str, HistoryState | CacheState] = {}
        # What is under way to a binding: another one that is made like it begins anew.
        self._replays: dict[Binding, HistoryReplay] = {}
        self._remembered = Totals()

    def of(self, exchanges: Iterable[str]) -> list[HistoryState | CacheState]:
        """Return those of the exchanges of these names; one may have been deleted meanwhile."""
        return [self._kept[name] for name in exchanges if name in self._kept]

    def begin(self, exchange: ExchangeState) -> None:
        """There is a new exchange, which may be of a type that keeps messages."""
        length = exchange.router.history_length
        if length:
            self._kept[exchange.name] = HistoryState(self._vhost.engine, exchange.name, length)
        if isinstance(exchange.router, DeduplicationRouter):
            number = 0
            if exchange.durable and exchange.router.lasting:
                number = self._recorded.pop(exchange.name, 0) or self._new_memory(exchange.name)
            cache = CacheState(self._vhost.engine, exchange, number)
            cache.engine.count_in(self._remembered)
            self._kept[exchange.name] = cache

    @property
    def remembered(self) -> int:
        """How many messages exchanges remember, to take none of them twice."""
        return self._remembered.ready

    def expect(self, exchange: str, number: int) -> None:
        """What an exchange remembers was recorded under that number; before it is made again."""
        self._recorded[exchange] = number

    def _new_memory(self, exchange: str) -> int:
        number = self._new_id()
        self._recorder.put(StoredCache(number, self._vhost.name, exchange))
        return number

    def end(self, exchange: ExchangeState) -> None:
        """An exchange is gone."""
        kept = self._kept.pop(exchange.name, None)
        if kept is not None:
            kept.forget()
        if isinstance(kept, CacheState) and kept.id:
            self._recorder.drop(StoredCache, kept.id)

    def end_all(self) -> None:
        """The virtual host is going."""
        while self._kept:
            self._kept.popitem()[1].forget()

    def giving(
        self,
        source: ExchangeState,
        binding: Binding,
        destination: ExchangeState | QueueState | VerdictQueueState,
        wanted: MessageFilter | None,
    ) -> Steps | None:
        """Publish what an exchange keeps to a destination that was just bound to it, in steps.

        Only what passes the filter of the binding, and as long as the binding is there: not to one
        that is made like it meanwhile, perhaps to another queue of that name.
        The messages are as they were: of the exchange and with the keys they were published with.

        Returns:
            The steps, which raise PreconditionFailed when publishers are blocked meanwhile, as each
            message is stored once more; None: the exchange has no history.
        """
        history = self._kept.get(source.name)
        if not isinstance(history, HistoryState):
            return None
        return self._giving(history, source, binding, destination, wanted)

    def awaiting(self, binding: Binding) -> Steps | None:
        """Wait until a binding has what its exchange keeps, which goes on being given to it.

        Returns:
            The steps, which raise the fault with which the giving ends; None: nothing is given.
        """
        replay = self._replays.get(binding)
        return None if replay is None else self._awaiting(replay)

    def _awaiting(self, replay: HistoryReplay) -> Steps:
        while not replay.ended:
            yield AWAITS
        if replay.fault is not None:
            raise replay.fault

    def _giving(
        self,
        history: HistoryState,
        source: ExchangeState,
        binding: Binding,
        destination: ExchangeState | QueueState | VerdictQueueState,
        wanted: MessageFilter | None,
    ) -> Steps:
        engine = self._vhost.engine
        title = f"a copy of the history of {exchange_in(self._vhost.name, source.name)}"
        replay = self._replays[binding] = HistoryReplay()
        try:
            for exchange, key, properties, body in history.messages():
                if binding not in source.outgoing or self._replays.get(binding) is not replay:
                    return
                self._memory.check_definition(title, len(body), actor())
                if engine.connections.publishers_blocked:
                    raise PreconditionFailed(
                        f"cannot make {title}: the disk is full (disk_free_min)"
                    )
                if wanted is None or wanted.engine.matches_message(exchange, key, properties):
                    queues = yield from self._beyond(destination, exchange, key, properties)
                    if binding not in source.outgoing or self._replays.get(binding) is not replay:
                        return
                    engine.publish(queues, exchange, key, properties, body)
                yield None
        except Fault as fault:
            replay.fault = fault
            raise
        finally:
            replay.ended = True
            if self._replays.get(binding) is replay:
                del self._replays[binding]

    def _beyond(
        self,
        destination: ExchangeState | QueueState | VerdictQueueState,
        exchange: str,
        key: str,
        properties: bytes,
    ) -> StepsTo[list[Queue]]:
        if isinstance(destination, QueueState | VerdictQueueState):
            return [destination.engine]
        keys = [key, *texts_in(header_of(properties, b"CC"))]
        routing = self._vhost.routing
        return (yield from routing.going_beyond(destination, exchange, keys, properties))
