"""The filter classes of a broker: Python that an administrator registered, by name and version.

Responsible for which class counts under a name, and for refusing changes that would harm those who
use it. Must not know where a class runs, nor whether it loads: who puts one has tried. Invariant: a
version never changes what it is, and a name that something uses has a class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from leporid.amqp.errors import NotFound
from leporid.broker.stored import StoredFilterClass
from leporid.durable import Change, Drop, Put
from leporid.filterserver.filter_class import FilterClass, FilterClassError

NAMED_MAX: Final = 3
"""Of what uses a class, so many are named when it is to be dropped; there may be any number."""


class FilterClassConflict(FilterClassError):
    """What was asked for does not go with what is there."""


class FilterClasses:
    """The registered classes.

    Args:
        configured: those of the configuration file. They hide others of their names, and nobody
            changes them while the broker runs.
        record: told of every durable change.
        uses: says, for a name, what uses the class; None for what was looked at only.

    Attributes:
        changed: told the name of a class that is new, is another version now, or is gone.
    """

    def __init__(
        self,
        configured: Iterable[FilterClass],
        record: Callable[[Change], None],
        uses: Callable[[str], Iterable[str | None]],
    ) -> None:
        self._configured = {each.name: each for each in configured}
        self._registered: dict[str, FilterClass] = {}
        self._record = record
        self.uses = uses
        self.changed: Callable[[str], None] = lambda name: None

    def __repr__(self) -> str:
        return f"<FilterClasses {', '.join(each.name for each in self)}>"

    def __iter__(self) -> Iterator[FilterClass]:
        """Go through those that count, by name."""
        found = self._registered | self._configured
        return iter([found[name] for name in sorted(found)])

    def find(self, name: str) -> FilterClass | None:
        """Return the class that counts under a name; None without one."""
        return self._configured.get(name) or self._registered.get(name)

    def require(self, name: str) -> FilterClass:
        """Return the class that counts under a name; raises NotFound without one."""
        found = self.find(name)
        if found is None:
            raise NotFound(f"no filter class '{name}' is registered")
        return found

    def is_configured(self, name: str) -> bool:
        """Say whether the configuration file has a class of that name."""
        return name in self._configured

    def next_version(self, name: str) -> int:
        """Return a version that would be newer than what is there."""
        found = self._registered.get(name)
        return 1 if found is None else found.version + 1

    def check(self, filter_class: FilterClass) -> None:
        """Check that a class may be put.

        Raises:
            FilterClassConflict: it is the file's, or it is not newer than what is there.
        """
        name = filter_class.name
        if name in self._configured:
            raise FilterClassConflict(f"filter class '{name}' is set in the configuration file")
        there = self._registered.get(name)
        if there is None or there == filter_class or there.version < filter_class.version:
            return
        if there.version > filter_class.version:
            raise FilterClassConflict(
                f"filter class '{name}' has version {there.version} already, which is newer than "
                f"{filter_class.version}"
            )
        raise FilterClassConflict(
            f"filter class '{name}' has a version {there.version} already, which is not the same; "
            "what differs needs a newer version"
        )

    def put(self, filter_class: FilterClass) -> bool:
        """Register a class that is known to load; returns whether its name is new.

        Raises what `check` raises.
        """
        self.check(filter_class)
        there = self._registered.get(filter_class.name)
        if there != filter_class:
            self._registered[filter_class.name] = filter_class
            self._record(
                Put(
                    StoredFilterClass(
                        filter_class.name,
                        filter_class.version,
                        filter_class.class_name,
                        filter_class.source,
                    )
                )
            )
            self.changed(filter_class.name)
        return there is None

    def drop(self, name: str) -> None:
        """Forget a class.

        Raises:
            NotFound: there is none of that name.
            FilterClassConflict: it is the file's, or something uses it.
        """
        self.require(name)
        if name in self._configured:
            raise FilterClassConflict(f"filter class '{name}' is set in the configuration file")
        used = list(islice((each for each in self.uses(name) if each is not None), NAMED_MAX + 1))
        if used:
            more = ", and more" if len(used) > NAMED_MAX else ""
            raise FilterClassConflict(
                f"filter class '{name}' is used by {', '.join(used[:NAMED_MAX])}{more}"
            )
        del self._registered[name]
        self._record(Drop(StoredFilterClass, (name,)))
        self.changed(name)

    def restore(self, filter_class: FilterClass) -> None:
        """Register one that was recorded; for start-up."""
        self._registered[filter_class.name] = filter_class
