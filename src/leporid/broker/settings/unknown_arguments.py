"""Arguments that are probably mistakes: names that nothing reads, filters that match nothing.

Responsible for the argument that a misspelt name comes near to, and for what becomes of such names
in one virtual host: RabbitMQ lets them pass, so they are logged, counted and listed; or refused,
where the configuration says so. Must not know which arguments exist (`table`), nor HTTP.
Invariant: whatever peers send, what is kept, logged and compared has a bound.
"""

from __future__ import annotations

import difflib
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.exchange.types.headers import X_MATCH, HeadersRouter
from leporid.broker.filter.filter_arguments import DIALECT, PREFIX, SQL, TAGS, doubts
from leporid.broker.group.group_retries import RETRY_ARGUMENTS
from leporid.broker.names import exchange_in, queue_in
from leporid.broker.settings.table import NAMES, Place
from leporid.broker.settings.values import GROUP

if TYPE_CHECKING:
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.exchange.types import Binding
    from leporid.broker.settings.values import Arguments
    from leporid.engine.engine import Engine

logger = logging.getLogger(__name__)

OnUnknown: TypeAlias = Literal["warn", "refuse"]
Kind: TypeAlias = Literal["queue", "exchange", "policy"]

LISTED_MAX: Final = 256
"""Unknown arguments that are kept for the list, the newest of a virtual host; some 100 KiB."""

FOUND_MAX: Final = 16
"""Unknown arguments of one declaration that are counted and kept."""

LOGGED_A_MINUTE_MAX: Final = 30
"""Lines in the log of one virtual host."""

NAME_CHARACTERS_MAX: Final = 64
"""Of a name that is compared with those in the table; the longest there has half of that."""

LOOKED_AT_MAX: Final = 8
"""Names of one table of arguments that are compared with those that exist, which takes a tenth of
a millisecond each: a peer may send thousands."""

# Where `filter_arguments.check_names` refuses what begins as arguments of filters do.
_FILTERED: Final = ("binding", "consumer")

# How near a name must be to one that exists, as difflib counts: the first for names that begin as
# RabbitMQ's arguments do, the second for others, which may be somebody's own.
_NEAR: Final = 0.75
_VERY_NEAR: Final = 0.9

_MINUTE_MS: Final = 60_000
_NO_GROUP: Final = "there is no x-group beside it, so it has no effect"


@dataclass(slots=True)
class UnknownArgument:
    """One argument that is probably a mistake.

    Attributes:
        place: where it is given.
        kind: of what it is given for: the queue, the source of the binding, …
        name: its name.
        argument: the name of the argument, cut.
        suggestion: the argument that is probably meant; None if there is none.
        reason: a sentence.
        count: how often it was given.
        last_ms: when it was given last, in milliseconds since 1970.
        by: the connection or the user that gave it last.
    """

    place: Place
    kind: Kind
    name: str
    argument: str
    suggestion: str | None
    reason: str
    count: int = 0
    last_ms: int = 0
    by: str = ""


class UnknownArguments:
    """Those of one virtual host since the start.

    Args:
        vhost: its name.
        mode: what becomes of them.
        engine: knows the time.

    Attributes:
        mode: as given; may be changed.
        counts: how many were given, by place.
    """

    def __init__(self, vhost: str, mode: OnUnknown, engine: Engine) -> None:
        self.counts: Counter[str] = Counter()
        self._vhost = vhost
        self.mode = mode
        self._engine = engine
        self._listed: dict[tuple[Place, str, str], UnknownArgument] = {}
        self._minute_ms = engine.clock.now_ms
        self._logged = 0

    def newest(self) -> list[UnknownArgument]:
        """Return those that are kept, the last one given first."""
        return list(reversed(self._listed.values()))

    def check_queue(self, name: str, arguments: Arguments, by: str) -> None:
        """Look at the arguments of a queue that is declared.

        Raises:
            PreconditionFailed: one is unknown, and such are refused.
        """
        self._report("queue", "queue", name, queue_in(self._vhost, name), arguments, by)

    def check_exchange(self, name: str, arguments: Arguments, by: str) -> None:
        """Look at the arguments of an exchange that is declared; raises as `check_queue`."""
        self._report("exchange", "exchange", name, exchange_in(self._vhost, name), arguments, by)

    def check_consumer(self, queue: str, arguments: Arguments, by: str) -> None:
        """Look at the arguments of a consumer of a queue; raises as `check_queue`."""
        if arguments:
            title = f"a consumer of {queue_in(self._vhost, queue)}"
            self._report("consumer", "queue", queue, title, arguments, by)
            self._doubt("consumer", "queue", queue, title, arguments, by)
            if GROUP not in arguments:
                for key in (one for one in RETRY_ARGUMENTS if one in arguments):
                    found = UnknownArgument("consumer", "queue", queue, key, None, _NO_GROUP)
                    self._note(found, "doubtful", title, by)

    def check_binding(self, source: ExchangeState, binding: Binding, by: str) -> None:
        """Look at the arguments of a binding from an exchange; raises as `check_queue`."""
        arguments = binding.arguments
        if not arguments:
            return
        title = (
            f"the binding of {binding.destination_kind} '{binding.destination}' to "
            f"{exchange_in(self._vhost, source.name)}"
        )
        headers = isinstance(source.router, HeadersRouter)
        mode = arguments.get(X_MATCH)
        # With all-with-x and any-with-x every name is that of a header.
        if not headers or not isinstance(mode, str) or not mode.endswith("-with-x"):
            self._report(
                "binding", "exchange", source.name, title, arguments, by, with_values=headers
            )
        self._doubt("binding", "exchange", source.name, title, arguments, by)

    def check_policy(self, name: str, members: Mapping[str, object], by: str) -> None:
        """Look at the members of a policy; raises as `check_queue`."""
        title = f"policy '{name}' in vhost '{self._vhost}'"
        self._report("policy", "policy", name, title, members, by)

    def check_table(
        self,
        kind: Kind,
        name: str,
        parameters: Arguments,
        names: tuple[str, str, str],
        by: str,
    ) -> None:
        """Look at the filters of messages over HTTP; raises as `check_queue`.

        Args:
            kind: what the messages are in: a queue, or an exchange that delays them.
            name: its name.
            parameters: the filters.
            names: those of the tags, the expression and its dialect.
            by: who reads it.
        """
        place = queue_in if kind == "queue" else exchange_in
        title = f"a table of {place(self._vhost, name)}"
        self._doubt("table", kind, name, title, parameters, by, names)

    def _report(
        self,
        place: Place,
        kind: Kind,
        name: str,
        title: str,
        arguments: Iterable[str],
        by: str,
        *,
        with_values: bool = False,
    ) -> None:
        unknown = unknown_in(place, arguments, with_values=with_values)
        for argument, near in islice(unknown, FOUND_MAX):
            found = UnknownArgument(place, kind, name, _cut(argument), None, "")
            if others := elsewhere(argument):
                found.reason = f"it is an argument of {' and '.join(others)}"
            elif near is not None:
                found.suggestion, found.reason = near, f"did you mean {near}?"
            else:
                found.reason = "there is none of that name"
            self._note(found, "unknown", title, by)

    def _doubt(
        self,
        place: Place,
        kind: Kind,
        name: str,
        title: str,
        arguments: Arguments,
        by: str,
        names: tuple[str, str, str] = (TAGS, SQL, DIALECT),
    ) -> None:
        for argument, reason in doubts(arguments, names):
            self._note(
                UnknownArgument(place, kind, name, argument, None, reason), "doubtful", title, by
            )

    def _note(self, found: UnknownArgument, adjective: str, title: str, by: str) -> None:
        self.counts[found.place] += 1
        key = found.place, found.name, found.argument
        known = self._listed.pop(key, None)
        if known is not None:
            known.reason, known.suggestion = found.reason, found.suggestion
        elif len(self._listed) >= LISTED_MAX:
            del self._listed[next(iter(self._listed))]
        kept = self._listed[key] = known or found
        kept.count += 1
        kept.last_ms = self._engine.clock.wall_ms
        kept.by = by
        if self.mode == "refuse":
            raise PreconditionFailed(
                f"{adjective} arg '{found.argument}' ({found.reason}) for {title}"
            )
        if known is None:
            self._log("%s: %s argument '%s' of %s: %s", by, adjective, found, title)

    def _log(self, text: str, by: str, adjective: str, found: UnknownArgument, title: str) -> None:
        now_ms = self._engine.clock.now_ms
        if now_ms - self._minute_ms >= _MINUTE_MS:
            self._minute_ms, self._logged = now_ms, 0
        self._logged += 1
        if self._logged <= LOGGED_A_MINUTE_MAX:
            logger.warning(text, by, adjective, found.argument, title, found.reason)
        elif self._logged == LOGGED_A_MINUTE_MAX + 1:
            logger.warning(
                "more unknown arguments in vhost '%s' are not logged for a minute; "
                "GET /api/unknown-arguments/VHOST lists the newest",
                self._vhost,
            )


def _cut(name: str) -> str:
    # Octets that are no UTF-8 are surrogates in names, and JSON may bring some: no text has them.
    name = name.encode("utf-8", "replace").decode()
    return name if len(name) <= NAME_CHARACTERS_MAX else name[:NAME_CHARACTERS_MAX] + "…"


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
