"""Filter classes at work: each registered class has a keeper, which has its process.

Responsible for joining the broker's registry to the filter server. Must not know what a filter
decides. Invariant: a class is asked in the version that counts; when it is gone, so is its process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from leporid.broker.filter_classes import FilterClasses
from leporid.filterserver.filter_class import FilterClass, FilterClassStatus
from leporid.filterserver.host import FilterFailure, FilterProcess, ProcessLimits
from leporid.filterserver.keeper import Keeper

logger = logging.getLogger(__name__)


class Judging:
    """The filter classes of one broker, running.

    Args:
        classes: the registry.
        limits: of each process.
    """

    def __init__(self, classes: FilterClasses, limits: ProcessLimits) -> None:
        self._classes = classes
        self._limits = limits
        self._keepers: dict[str, Keeper] = {}
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
        """Say of each class in the configuration file that does not load why; for start-up."""
        for each in self._classes:
            if self._classes.is_configured(each.name):
                try:
                    await self.try_out(each)
                except FilterFailure as failure:
                    logger.error("filter class '%s' does not load: %s", each.name, failure)

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

    async def stop(self) -> None:
        """End every process."""
        await asyncio.gather(*self._ending, *(each.end() for each in self._keepers.values()))

    def _changed(self, name: str) -> None:
        """Another version counts under a name, or none."""
        keeper, found = self._keepers.get(name), self._classes.find(name)
        if keeper is None:
            return
        if found is None:
            del self._keepers[name]
            ending = asyncio.ensure_future(keeper.end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
        else:
            keeper.replace(found)
