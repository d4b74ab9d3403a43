"""Stand-ins for the engine's half of an exchange, and for credit; see `engine_fake`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leporid.broker.dataplane import Queue, Resolve
from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.filter_counters import FilterCounters

if TYPE_CHECKING:
    from tests.broker.engine_fake import FakeReader


@dataclass(eq=False)
class FakeConditionalRoute:
    """Queues of every message, and such as depend on it."""

    queues: Sequence[Queue]
    filtered: Sequence[tuple[Filter, Queue]]
    amended: bool = False

    def queues_for(self, exchange: str, key: str, properties: bytes) -> list[Queue]:
        some = [
            queue
            for wanted, queue in self.filtered
            if wanted.matches_message(exchange, key, properties)
        ]
        return list(dict.fromkeys([*self.queues, *some]))


@dataclass(eq=False)
class FakeFilterOutcomes:
    """Filters that must be asked for each message."""

    filters: Sequence[Filter]


@dataclass(eq=False)
class FakeRouteCache:
    name: str
    resolve: Resolve
    cacheable: bool
    retired: bool = False
    make_delays: Callable[[], object] | None = None
    delaying: bool = False
    check_key: Callable[[str], None] | None = None
    spread_keys: Callable[[], Sequence[str]] | None = None
    questions: FilterCounters = field(default_factory=FilterCounters)

    def forget(self) -> None:
        pass

    def amend(
        self, meets: Callable[[str], bool], wanted: object, queue: object, comes: bool, /
    ) -> None:
        pass

    def forget_key(self, key: str, /) -> None:
        pass

    def retire(self) -> None:
        self.retired = True


@dataclass(eq=False)
class FakeCredit:
    """What readers may have unsettled together."""

    limit: int
    readers: list[FakeReader] = field(default_factory=list)

    @property
    def left(self) -> int:
        return self.limit - sum(len(reader.unacked) for reader in self.readers)
