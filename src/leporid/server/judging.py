"""Filter classes at work: what waits in the engine is judged by the process of its class.

Responsible for joining the engine and the broker's registry to the filter server. Must not know
what a filter decides. Invariants: a class is asked in the version that counts, about one batch at a
time, in turn for each binding and consumer that asks it; a batch without verdicts waits again in
its place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from leporid.broker.filter.filter_classes import FilterClasses
from leporid.filterserver.filter_class import FilterClass, FilterClassStatus
from leporid.filterserver.host import FilterFailure, FilterProcess, ProcessLimits
from leporid.filterserver.keeper import Keeper

logger = logging.getLogger(__name__)


BATCH_MESSAGES: Final = 500
"""Of one batch. What passes is stored in one turn, some 2 µs each, while nobody else has his."""

BATCH_BYTES: Final = 1024 * 1024

TIME_SHARE: Final = 0.25
"""Of the time that a class has for a batch, what a batch is to take if it is slow: messages are not
all alike."""


class Asker(Protocol):
    """Messages of one binding or consumer that wait for verdicts; in the engine.

    Who is gone meanwhile has no batch, and cares for no verdicts.
    """

    @property
    def name(self) -> str:
        """The class that is to be asked."""

    def batch(self, most: int, bytes_max: int, /) -> tuple[bytes, int] | None:
        """Give the next messages, and how many they are."""

    def judged(self, verdicts: bytes, /) -> None:
        """Take the verdicts."""

    def give_back(self) -> None:
        """There are none."""


class Judging:
    """The filter classes of one broker, running.

    Args:
        classes: the registry.
        limits: of each process.
        waiting: gives what something came to since the last call.
        about_to_judge: verdicts came, and the engine will be told of them.
        judged: it was told, or who was to be asked had nothing any more.
        renewed: another version counts under a name.
    """

    def __init__(
        self,
        classes: FilterClasses,
        limits: ProcessLimits,
        *,
        waiting: Callable[[], Iterable[Asker]] = tuple,
        about_to_judge: Callable[[], None] = lambda: None,
        judged: Callable[[], None] = lambda: None,
        renewed: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._classes = classes
        self._limits = limits
        self._take_waiting = waiting
        self._about_to_judge = about_to_judge
        self._judged = judged
        self._renewed = renewed
        # By class, in the order of their turns; and who asks it.
        self._waiting: dict[str, dict[Asker, None]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._keepers: dict[str, Keeper] = {}
        # Messages to ask about at a time, where it is not BATCH_MESSAGES.
        self._most: dict[str, int] = {}
        # Of classes that are missing, until there is one.
        self._said_missing: set[str] = set()
        self._stopped = False
        self._ending: set[asyncio.Future[None]] = set()
        classes.changed = self._changed

    def __repr__(self) -> str:
        return f"<Judging classes={len(self._keepers)}>"

    async def try_out(self, filter_class: FilterClass) -> None:
        """Load a class in a process that then ends; raises FilterFailure."""
        process = await FilterProcess.start(
            filter_class.class_name, filter_class.source, self._limits
        )
        await process.end()

    async def try_configured(self) -> None:
        """Say of each class in the configuration file that does not load why; for start-up.

        All at once, as one that hangs takes all the time it has, and nobody can connect until then.
        """
        configured = [each for each in self._classes if self._classes.is_configured(each.name)]
        tried = await asyncio.gather(*map(self.try_out, configured), return_exceptions=True)
        for each, failure in zip(configured, tried, strict=True):
            if isinstance(failure, FilterFailure):
                logger.error("filter class '%s' does not load: %s", each.name, failure)
            elif failure is not None:
                raise failure

    def keeper(self, name: str) -> Keeper:
        """Return what keeps a class going; there must be one of that name."""
        found = self._keepers.get(name)
        if found is None:
            found = self._keepers[name] = Keeper(self._classes.require(name), self._limits)
        return found

    def status(self, name: str) -> FilterClassStatus:
        """Say how a class is; one that was never asked is idle."""
        keeper = self._keepers.get(name)
        return FilterClassStatus() if keeper is None else keeper.status()

    def statuses(self) -> Mapping[str, FilterClassStatus]:
        """Say how all of them are."""
        return {each.name: self.status(each.name) for each in self._classes}

    def poll(self) -> None:
        """Have what came since the last call judged; at the end of each turn."""
        for asker in self._take_waiting():
            self._waiting.setdefault(asker.name, {})[asker] = None
            self._ask(asker.name)

    def _ask(self, name: str) -> None:
        """Have a class asked about what waits for it, unless it is."""
        if name in self._asking or self._stopped:
            return
        if self._classes.find(name) is None:
            if name not in self._said_missing:
                self._said_missing.add(name)
                logger.error("no filter class '%s' is registered: what it is to judge waits", name)
            return
        asking = self._asking[name] = asyncio.ensure_future(self._work(name))
        asking.add_done_callback(_report)

    async def _work(self, name: str) -> None:
        """Ask a class until nothing waits for it."""
        waiting = self._waiting[name]
        try:
            while waiting and self._classes.find(name) is not None:
                keeper = self.keeper(name)
                await keeper.ready()
                if self._keepers.get(name) is not keeper:
                    continue  # the class was deleted meanwhile, and maybe made anew
                asker = next(iter(waiting))
                del waiting[asker]
                batch = asker.batch(self._most.get(name, BATCH_MESSAGES), BATCH_BYTES)
                if batch is None:
                    self._judged()
                else:
                    # Last in turn now.
                    waiting[asker] = None
                    await self._judge(keeper, asker, *batch)
        finally:
            del self._asking[name]

    async def _judge(self, keeper: Keeper, asker: Asker, batch: bytes, count: int) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            verdicts = await keeper.judge(batch, count)
        except FilterFailure:
            # Maybe these were too many for its time, or there is one that it cannot judge: those
            # before that one need not wait.
            self._most[asker.name] = max(1, count // 2)
            asker.give_back()
            return
        except BaseException:
            asker.give_back()
            raise
        self._most[asker.name] = most_within(
            count, clock() - began, self._limits.batch_seconds * TIME_SHARE
        )
        self._about_to_judge()
        asker.judged(verdicts)
        self._judged()

    async def stop(self) -> None:
        """End every process; what was asked waits again."""
        self._stopped = True
        for asking in list(self._asking.values()):
            asking.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        await asyncio.gather(*self._ending, *(each.end() for each in self._keepers.values()))

    def _changed(self, name: str) -> None:
        """Another version counts under a name, or none."""
        keeper, found = self._keepers.get(name), self._classes.find(name)
        self._said_missing.discard(name)
        self._most.pop(name, None)
        if found is not None:
            self._renewed(name)
            if self._waiting.get(name):
                self._ask(name)
        if keeper is None:
            return
        if found is None:
            del self._keepers[name]
            ending = asyncio.ensure_future(keeper.end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
        else:
            keeper.replace(found)


def most_within(count: int, took_seconds: float, seconds: float) -> int:
    """Return how many messages a batch may have that is to take so long, by one that was judged."""
    return max(1, min(BATCH_MESSAGES, int(count * seconds / max(took_seconds, 1e-9))))


def _report(asking: asyncio.Task[None]) -> None:
    """Say what should not have happened; what waits is asked about when more comes."""
    if not asking.cancelled() and (error := asking.exception()) is not None:
        logger.error("defect: a filter class is not asked any more", exc_info=error)
