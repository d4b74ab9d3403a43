"""What connections, their users and all definitions make the broker keep, and how much they may.

Responsible for the accounts, for their shares of the memory watermark, and for what one definition
or consumer is charged. Must not know who asks for it, nor how much memory the process uses: it is
told whether that is too much. Invariant: what is charged when something is made is released when it
goes, so that an account is empty when all is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.filter.filter_arguments import FILTER_ARGUMENTS, SQL, TAGS
from leporid.engine.bounds.accounts import Account

if TYPE_CHECKING:
    from leporid.amqp.tables import Value
    from leporid.broker.exchange.types import Binding
    from leporid.broker.registry import Steps
    from leporid.limits.refusals import Refusals

CONNECTION_SHARE: Final = 1 / 4
"""Of the watermark: what one connection may make the broker keep. Two that do nothing but fill
memory leave half of it to the others."""
USER_SHARE: Final = 1 / 2
"""Of the watermark: the connections of one user together."""
DEFINITIONS_SHARE: Final = 1 / 2
"""Of the watermark: all queues, exchanges and bindings. Messages need the rest."""
TIMES_WHAT_IS_FREE: Final = 4
"""What one user may define: so many times what is free then. One user alone gets four fifths of
the share of all definitions, n users get 4 / (4 n + 1) of it each, and whoever comes later finds
room."""

# What one takes in memory beside its name and arguments, as measured with 100,000 of each.
QUEUE_BYTES: Final = 3072
PRIORITY_BYTES: Final = 64
"""Of a queue, for each priority that it has."""
EXCHANGE_BYTES: Final = 3072
BINDING_BYTES: Final = 1024
CONSUMER_BYTES: Final = 1536
FILTER_BYTES: Final = 4096
"""The filter of a consumer or binding, its group, its place in the index of filters."""
CONDITION_BYTES: Final = 2560
"""What a binding of a headers exchange compares, likewise."""
TERM_BYTES: Final = 256
"""Of that, for each header."""
FILTER_TEXT_BYTES: Final = 48
"""Of a filter, for each byte of its text, as measured with many short terms or tags."""

# Of Python 3.11, rounded up: an object of its own, and a place in a dict or list.
OBJECT_BYTES: Final = 56
PLACE_BYTES: Final = 112


class Memory:
    """The accounts of one broker.

    Args:
        watermark: bytes above which the broker keeps nothing more; None: no limit of any account.
        refusals: counts what is refused.
    """

    def __init__(self, watermark: int | None, refusals: Refusals) -> None:
        self._watermark = watermark
        self._refusals = refusals
        self.total = Account("the broker", watermark)
        self.definitions = Account("definitions", self._share(DEFINITIONS_SHARE), self.total)
        self._users: dict[str, Account] = {}
        # An account lives as long as there is something that was charged to it.
        self._definers: WeakValueDictionary[str, Account] = WeakValueDictionary()
        for kind in ("memory_definitions", "memory_consumers"):
            refusals.expect(kind)

    def __repr__(self) -> str:
        return f"<Memory {self.total!r}>"

    def set_watermark(self, watermark: int, connections: Iterable[Account]) -> Steps:
        """Have another watermark for all accounts, in steps; what is kept already stays.

        Args:
            watermark: as for the class.
            connections: the accounts of those that there are.
        """
        self._watermark = self.total.limit = watermark
        self.definitions.limit = int(watermark * DEFINITIONS_SHARE)
        for account in tuple(self._users.values()):
            account.limit = int(watermark * USER_SHARE)
            yield None
        for account in connections:
            account.limit = int(watermark * CONNECTION_SHARE)
            yield None

    def connection(self) -> Account:
        """Return an account for a connection that has not logged in."""
        return Account("the connection", self._share(CONNECTION_SHARE), self.total)

    def user(self, name: str) -> Account:
        """Return the account of a user's connections."""
        found = self._users.get(name)
        if found is None:
            share = self._share(USER_SHARE)
            found = self._users[name] = Account(f"user '{name}'", share, self.total)
        return found

    def by_user(self) -> list[tuple[str, int, int]]:
        """Return names of users with what their connections keep, and their definitions."""
        kept = {name: account.bytes for name, account in self._users.items()}
        defined = {name: account.bytes for name, account in self._definers.items()}
        names = dict.fromkeys((*kept, *defined))
        return [(name, kept.get(name, 0), defined.get(name, 0)) for name in names]

    def definitions_of(self, user: str | None) -> Account:
        """Return the account that is charged for what a user defines.

        Args:
            user: a name; None: nobody, for what the broker makes by itself or finds at its start.
        """
        if user is None:
            return self.definitions
        found = self._definers.get(user)
        if found is None:
            found = Account("what the user has defined", None, self.definitions)
            self._definers[user] = found
        return found

    def check_definition(self, title: str, size: int, user: str | None) -> None:
        """Check that there is room for a definition that a client asks for.

        Args:
            title: what it is, such as "queue 'q' in vhost '/'".
            size: what it takes.
            user: who is going to be charged for it.

        Raises:
            PreconditionFailed: there is no room for it, or the user has too many.
        """
        everybody = self.definitions
        account = self.definitions_of(user)
        refusing = everybody.refusing(size)
        if refusing is None and account is not everybody and self._watermark is not None:
            account.limit = TIMES_WHAT_IS_FREE * (everybody.limit - everybody.bytes - size)
            refusing = account.over(size)
        if refusing is not None:
            self._refusals.count("memory_definitions")
            raise PreconditionFailed(f"cannot make {title}: {refusing.text(size)}")

    def check_consumer(self, account: Account, title: str, size: int) -> None:
        """Check that a connection may have one more consumer.

        Above the watermark, too: consumers make room.

        Raises:
            PreconditionFailed: the connection, or its user, has too many.
        """
        refusing = account.over(size)
        if refusing is not None:
            self._refusals.count("memory_consumers")
            raise PreconditionFailed(f"cannot consume from {title}: {refusing.text(size)}")

    def _share(self, share: float) -> int | None:
        return None if self._watermark is None else int(self._watermark * share)


def size_of(base: int, name: str, arguments: Mapping[str, Value]) -> int:
    """Return what something with a name and arguments takes, in bytes."""
    return base + len(name) + (table_bytes(arguments) if arguments else 0)


def queue_bytes(name: str, arguments: Mapping[str, Value]) -> int:
    """Return what a queue takes, in bytes; messages are counted elsewhere."""
    highest = arguments.get("x-max-priority")
    priorities = highest + 1 if isinstance(highest, int) else 0
    return size_of(QUEUE_BYTES, name, arguments) + PRIORITY_BYTES * priorities


def consumer_bytes(tag: str, arguments: Mapping[str, Value]) -> int:
    """Return what a consumer takes, in bytes, with its filter."""
    return size_of(CONSUMER_BYTES, tag, arguments) + _filter_bytes(arguments)


def binding_bytes(binding: Binding) -> int:
    """Return what a binding takes, in bytes, with its filter."""
    size = size_of(BINDING_BYTES, binding.key, binding.arguments)
    # What a headers exchange compares: a filter, too. Elsewhere there are no such arguments.
    terms = sum(name not in FILTER_ARGUMENTS and name != "x-match" for name in binding.arguments)
    if terms:
        size += CONDITION_BYTES + TERM_BYTES * terms
    return size + _filter_bytes(binding.arguments)


def _filter_bytes(arguments: Mapping[str, Value]) -> int:
    texts = (arguments.get(name) for name in (TAGS, SQL))
    return sum(
        FILTER_BYTES + FILTER_TEXT_BYTES * len(text)
        for text in texts
        if isinstance(text, str | bytes)
    )


# Made once: `str | bytes | bytearray` takes longer to make than to ask for.
_TEXTS: Final = (str, bytes, bytearray)


def table_bytes(table: Mapping[str, Value]) -> int:
    """Return what a table takes in memory, in bytes; small values take many times their size."""
    size = 0
    pending: list[object] = [dict(table)]
    while pending:
        value = pending.pop()
        size += OBJECT_BYTES
        if isinstance(value, dict):  # within a table, too; to ask for a Mapping takes long
            size += (PLACE_BYTES + OBJECT_BYTES) * len(value) + sum(map(len, value))
            pending.extend(value.values())
        elif isinstance(value, list):
            size += 8 * len(value)
            pending.extend(value)
        elif isinstance(value, _TEXTS):
            size += len(value)
    return size
