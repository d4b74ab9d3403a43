"""Every argument there is, in one table: where, of which types, checked how, documented where.

Responsible for which arguments exist, and for the one that a misspelt name comes near to. Must not
know what an argument does; nor who gave it (`unknown_arguments`). Invariant: what any part of the
broker reads, and what RabbitMQ and its plugins read, stands here; docs/queue-arguments.md has all.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from leporid.broker.arguments import CONSUMER_CHECKS, QUEUE_CHECKS, Check
from leporid.broker.exchange import ALTERNATE_ARGUMENT
from leporid.broker.exchanges import DELAYED_MESSAGE, DELAYED_TYPE_ARGUMENT, STRICT_KEYS_ARGUMENT
from leporid.broker.exchanges.consistent_hash import HASH_HEADER, HASH_PROPERTY
from leporid.broker.exchanges.deduplication import (
    PERSISTENCE_ARGUMENT,
    SIZE_ARGUMENT,
    TTL_ARGUMENT,
)
from leporid.broker.exchanges.headers import X_MATCH
from leporid.broker.exchanges.recent_history import LENGTH_ARGUMENT
from leporid.broker.filters import FILTER_ARGUMENTS, PREFIX
from leporid.broker.partitions import HASH_TYPE, MARK, ORDER
from leporid.broker.queue_types import QUEUE_TYPES, QueueType

Place: TypeAlias = Literal["queue", "exchange", "binding", "consumer", "policy", "table"]
"""queue.declare, exchange.declare, queue.bind and exchange.bind, basic.consume; and over HTTP the
members of a policy, and the parameters of a table of messages."""

NAME_CHARACTERS_MAX: Final = 64
"""Of a name that is compared with those in the table; the longest there has half of that."""

LOOKED_AT_MAX: Final = 8
"""Names of one table of arguments that are compared with those that exist, which takes a tenth of
a millisecond each: a peer may send thousands."""

# Where `filters.check_names` refuses what begins as arguments of filters do.
_FILTERED: Final = ("binding", "consumer")

# How near a name must be to one that exists, as difflib counts: the first for names that begin as
# RabbitMQ's arguments do, the second for others, which may be somebody's own.
_NEAR: Final = 0.75
_VERY_NEAR: Final = 0.9

_QUEUES: Final = "queue-arguments.md#of-queues"
_CONSUMERS: Final = "queue-arguments.md#of-consumers"
_EXCHANGES: Final = "queue-arguments.md#of-exchanges"
_BINDINGS: Final = "queue-arguments.md#of-bindings"
_FILTERS: Final = "queue-arguments.md#of-filters"
_UNREAD: Final = "queue-arguments.md#known-and-never-looked-at"
_POLICIES: Final = "policies.md#over-http"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument in one place.

    Attributes:
        name: its name.
        place: where it is given.
        doc: page of docs/ and heading under which it stands.
        types: of queues or exchanges that read it; none: it is not a matter of the type.
        check: what its value is checked with; None if whoever reads it does, or nobody.
    """

    name: str
    place: Place
    doc: str
    types: tuple[str, ...] = ()
    check: Check | None = None


def _of_queue_types(
    place: Place,
    doc: str,
    known: Callable[[QueueType], Iterable[str]],
    checks: Mapping[str, Check],
) -> Iterator[Argument]:
    types: dict[str, list[str]] = {}
    for kind in QUEUE_TYPES.values():
        for name in known(kind):
            types.setdefault(name, []).append(kind.name)
    for name, names in types.items():
        yield Argument(name, place, doc, tuple(names), checks.get(name))


ARGUMENTS: Final[tuple[Argument, ...]] = (
    *_of_queue_types("queue", _QUEUES, lambda kind: kind.queue_arguments, QUEUE_CHECKS),
    # Those of later RabbitMQs and of federation, which declares queues at the other broker.
    Argument("x-consumer-disconnected-timeout", "queue", _UNREAD),
    Argument("x-ha-policy", "queue", _UNREAD),
    Argument("x-internal-purpose", "queue", _UNREAD),
    Argument("x-member-placement-tag", "queue", _UNREAD),
    Argument("x-name-prefix", "queue", _UNREAD),
    Argument("x-quorum-target-group-size", "queue", _UNREAD),
    Argument("x-stream-filter-size-bytes", "queue", _UNREAD),
    *_of_queue_types("consumer", _CONSUMERS, lambda kind: kind.consumer_arguments, CONSUMER_CHECKS),
    *(Argument(name, "consumer", _FILTERS) for name in FILTER_ARGUMENTS),
    Argument(ALTERNATE_ARGUMENT, "exchange", _EXCHANGES),
    Argument(HASH_HEADER, "exchange", _EXCHANGES, ("x-consistent-hash",)),
    Argument(HASH_PROPERTY, "exchange", _EXCHANGES, ("x-consistent-hash",)),
    Argument(PERSISTENCE_ARGUMENT, "exchange", _EXCHANGES, ("x-message-deduplication",)),
    Argument(SIZE_ARGUMENT, "exchange", _EXCHANGES, ("x-message-deduplication",)),
    Argument(TTL_ARGUMENT, "exchange", _EXCHANGES, ("x-message-deduplication",)),
    Argument(DELAYED_TYPE_ARGUMENT, "exchange", _EXCHANGES, (DELAYED_MESSAGE,)),
    Argument(LENGTH_ARGUMENT, "exchange", _EXCHANGES, ("x-recent-history",)),
    Argument(STRICT_KEYS_ARGUMENT, "exchange", _EXCHANGES),
    Argument(MARK, "exchange", _EXCHANGES, ("direct", HASH_TYPE)),
    Argument(X_MATCH, "binding", _BINDINGS, ("headers",)),
    Argument(ORDER, "binding", _BINDINGS, ("direct", HASH_TYPE)),
    *(Argument(name, "binding", _FILTERS) for name in FILTER_ARGUMENTS),
    *(
        Argument(name, "policy", _POLICIES)
        for name in ("pattern", "definition", "priority", "apply-to", "name", "vhost")
    ),
)
"""All of them. The settings of policies, which are refused where they are misspelt, are
`policy_keys.KEYS`."""

NAMES: Final[Mapping[str, frozenset[str]]] = {
    place: frozenset(each.name for each in ARGUMENTS if each.place == place)
    for place in ("queue", "exchange", "binding", "consumer", "policy")
}
"""Those of each place; unknown parameters of a table are refused."""

_PLACES: Final[Mapping[Place, str]] = {
    "queue": "queues",
    "exchange": "exchanges",
    "binding": "bindings",
    "consumer": "consumers",
}


def unknown_in(
    place: Place, names: Iterable[str], *, with_values: bool = False
) -> Iterator[tuple[str, str | None]]:
    """Yield the names that are no argument there, each with the one that is probably meant.

    A name that does not begin with `x-` may be somebody's own, and is let pass unless it is very
    near to an argument.

    Args:
        place: where the arguments are given.
        names: theirs.
        with_values: the binding is of a headers exchange: names without `x-` are of headers, those
            with it are skipped by the exchange and unknown only where they are near to one.
    """
    looked_at = 0
    for name in names:
        if name in NAMES[place] or (place in _FILTERED and name.startswith(PREFIX)):
            continue
        marked = name[:2].lower() in ("x-", "x_")
        if with_values and not marked:
            continue
        near = None
        if looked_at < LOOKED_AT_MAX and len(name) <= NAME_CHARACTERS_MAX:
            looked_at += 1
            near = nearest(place, name)
        if near is not None or (marked and not with_values):
            yield name, near


@lru_cache(maxsize=1024)
def nearest(place: Place, name: str) -> str | None:
    """Return the argument of a place that a name is near to; capitals and underscores are near."""
    plain = name.lower().replace("_", "-")
    known = NAMES[place]
    if place == "policy" or plain.startswith("x-"):
        found = difflib.get_close_matches(plain, known, 1, _NEAR)
    else:
        found = difflib.get_close_matches(plain, known, 1, _VERY_NEAR)
        found = found or difflib.get_close_matches(f"x-{plain}", known, 1, _VERY_NEAR)
    if not found:
        # x-ttl is x-message-ttl, as no other argument has all of its words.
        words = set(plain.split("-"))
        found = [each for each in known if words < set(each.split("-"))]
        return found[0] if len(found) == 1 and "x" in words else None
    return found[0]


def elsewhere(name: str) -> list[str]:
    """Return what an argument of that name belongs to, such as `queues`."""
    return [noun for place, noun in _PLACES.items() if name in NAMES[place]]
