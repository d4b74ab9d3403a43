"""Every setting there is, in one table: arguments of queues and others, keys of policies.

Responsible for where a setting is given, for which types, with which values, documented where, what
policies may say of it, which of several values counts, whether it is compared when something is
declared again, and what the engine is told. Arguments, policies, limits, equivalence and unknown
names are all read from here. Must not know who gave a setting. Invariant: what any part of the
broker reads, and what RabbitMQ and its plugins read, stands here; docs/queue-arguments.md and
docs/policies.md have all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from leporid.broker.filter.filter_arguments import FILTER_ARGUMENTS
from leporid.broker.settings import effects, values
from leporid.broker.settings.effects import Effect
from leporid.broker.settings.values import (
    EXPIRY_MS_MAX,
    NUMBER_MAX,
    Fits,
    Values,
    number,
    one_of,
    whole,
)
from leporid.broker.stream.stream_arguments import SEGMENT_BYTES_LIMIT

Place: TypeAlias = Literal["queue", "exchange", "binding", "consumer", "policy", "table", "key"]
"""queue.declare, exchange.declare, queue.bind and exchange.bind, basic.consume; over HTTP the
members of a policy, and the parameters of a table of messages; and what the definition of a policy
has that is no argument."""

Type: TypeAlias = Literal["classic", "quorum", "stream"]

_QUEUES: Final = "queue-arguments.md#of-queues"
_CONSUMERS: Final = "queue-arguments.md#of-consumers"
_EXCHANGES: Final = "queue-arguments.md#of-exchanges"
_BINDINGS: Final = "queue-arguments.md#of-bindings"
_FILTERS: Final = "queue-arguments.md#of-filters"
_UNREAD: Final = "queue-arguments.md#known-and-never-looked-at"
_POLICIES: Final = "policies.md#over-http"
_KEYS: Final = "policies.md#settings"


@dataclass(frozen=True, slots=True)
class PolicyKey:
    """What policies may say of a setting.

    Attributes:
        wrong: the sentence for a value that is not right; {} stands for it.
        least: of policy and argument the smaller value counts, else the argument's.
        lowest: the lowest number that is a limit; a lower one means that there is none.
        merge: for what operator policies may have: of a policy's value and the operator policy's,
            the one that counts.
        fits: whether a value is right, where it is not as for the argument.
        first: types of queue whose policies count although there is an argument.
        harmless: types of queue that do not know the setting, and that policies with it apply to
            all the same, with their other settings.
    """

    wrong: str
    least: bool = False
    lowest: int = 0
    merge: Callable[[Any, Any], Any] | None = None
    fits: Fits | None = None
    first: tuple[Type, ...] = ()
    harmless: tuple[Type, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting in one place.

    Attributes:
        name: its name there.
        place: where it is given.
        doc: page of docs/ and heading under which it stands.
        types: of queues or exchanges that read it; none: it is not a matter of the type.
        values: what it may be; None if whoever reads it checks that, or nobody.
        policy: what policies may say of it, under its name without `x-`; None: nothing.
        compared: whether it must be the same when an exchange is declared again. Of a queue, all
            that its type reads must be.
        kept_elsewhere: other types of queue keep it, without effect; else they refuse it.
        effects: what the engine is told because of it.
    """

    name: str
    place: Place
    doc: str
    types: tuple[str, ...] = ()
    values: Values | None = None
    policy: PolicyKey | None = None
    compared: bool = False
    kept_elsewhere: bool = False
    effects: tuple[Effect, ...] = ()

    @property
    def key(self) -> str:
        """Its name in policies."""
        return self.name.removeprefix("x-")


_ALL: Final[tuple[Type, ...]] = ("classic", "quorum", "stream")
_CLASSIC: Final[tuple[Type, ...]] = ("classic",)
_QUORUM: Final[tuple[Type, ...]] = ("quorum",)
_STREAM: Final[tuple[Type, ...]] = ("stream",)
_KEPT: Final[tuple[Type, ...]] = ("classic", "quorum")  # those that messages are taken from
_LASTING: Final[tuple[Type, ...]] = ("quorum", "stream")

_OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")
_RETRY: Final = "{} is not a valid delayed retry %s delay. Must be a positive integer"


def _operators(_value: Any, operators: Any) -> Any:
    return operators


def _bound(
    noun: str, *, first: tuple[Type, ...] = (), harmless: tuple[Type, ...] = ()
) -> PolicyKey:
    """Make what policies say of a limit: of several, the smallest counts."""
    wrong = f"{{}} is not a valid {noun}"
    return PolicyKey(wrong, least=True, merge=min, first=first, harmless=harmless)


def _queue(
    name: str,
    types: tuple[Type, ...],
    values: Values | None = None,
    policy: PolicyKey | None = None,
    *effects: Effect,
    kept_elsewhere: bool = False,
) -> Setting:
    """Make a row of an argument of queues."""
    return Setting(
        name,
        "queue",
        _QUEUES,
        types,
        values,
        policy,
        compared=True,
        kept_elsewhere=kept_elsewhere,
        effects=effects,
    )


def _consumer(
    name: str, types: tuple[Type, ...], values: Values | None, *, kept_elsewhere: bool = False
) -> Setting:
    """Make a row of an argument of consumers."""
    return Setting(name, "consumer", _CONSUMERS, types, values, kept_elsewhere=kept_elsewhere)


# Of queues, in the order in which RabbitMQ checks them.
_OF_QUEUES: Final = (
    _queue(
        "x-expires",
        _KEPT,
        number(1, EXPIRY_MS_MAX),
        _bound("queue expiry", first=_QUORUM),
        effects.EXPIRY,
    ),
    _queue(
        "x-message-ttl",
        _KEPT,
        number(0, EXPIRY_MS_MAX),
        _bound("message TTL"),
        effects.MESSAGE_TTL,
    ),
    _queue(
        "x-dead-letter-exchange",
        _KEPT,
        values.TEXT,
        PolicyKey("{} is not a valid dead letter exchange name"),
        effects.DEAD_LETTERS,
    ),
    _queue(
        "x-dead-letter-routing-key",
        _KEPT,
        values.DEAD_LETTER_KEY,
        PolicyKey("{} is not a valid dead letter routing key"),
        effects.DEAD_LETTERS,
    ),
    _queue(
        "x-dead-letter-strategy",
        _QUORUM,
        one_of(("at-most-once", "at-least-once"), "invalid_dlx_strategy"),
        PolicyKey("{} is not a valid dead letter strategy"),
    ),
    _queue("x-max-length", _KEPT, values.SIZE, _bound("maximum length"), effects.BOUNDS),
    _queue(
        "x-max-length-bytes",
        _ALL,
        values.SIZE,
        _bound("maximum length in bytes"),
        effects.BOUNDS,
        effects.RETENTION,
    ),
    _queue(
        "x-max-in-memory-length",
        _QUORUM,
        values.SIZE,
        _bound("maximum memory in bytes", harmless=_CLASSIC),
    ),
    _queue(
        "x-max-in-memory-bytes",
        _QUORUM,
        values.SIZE,
        _bound("maximum memory in bytes", harmless=_CLASSIC),
    ),
    _queue(
        "x-max-priority",
        _CLASSIC,
        number(0, values.PRIORITY_MAX, "max_value_exceeded"),
        None,
        effects.PRIORITIES,
    ),
    _queue(
        "x-overflow",
        _KEPT,
        one_of(_OVERFLOWS, "invalid_overflow"),
        PolicyKey("{} is not a valid overflow value", merge=_operators, first=_QUORUM),
        effects.BOUNDS,
        effects.REFUSING,
    ),
    _queue(
        "x-queue-mode",
        _CLASSIC,
        one_of(("default", "lazy"), "\"unsupported queue mode '{}'\""),
        PolicyKey("{} is not a valid queue-mode value"),
    ),
    _queue(
        "x-queue-version",
        _CLASSIC,
        values.QUEUE_VERSION,
        PolicyKey("{} is not a valid queue-version value", harmless=_LASTING),
    ),
    _queue("x-single-active-consumer", _KEPT, values.BOOLEAN, None, effects.SINGLE_ACTIVE_CONSUMER),
    # The engine's queue is of another class with it, which it is from its making on.
    _queue(values.DEDUPLICATION, _KEPT, values.BOOLEAN),
    _queue(values.QUEUE_TYPE, _ALL),
    _queue(
        "x-queue-master-locator",
        _CLASSIC,
        None,
        PolicyKey(
            "{} invalid queue-master-locator value",
            fits=one_of(("min-masters", "client-local", "random"), "").fits,
        ),
    ),
    # What RabbitMQ has on quorum queues only, or not at all.
    _queue(
        "x-delivery-limit",
        _KEPT,
        values.DELIVERY_LIMIT,
        _bound("delivery limit"),
        effects.RETURNS,
    ),
    _queue(
        "x-consumer-timeout",
        _KEPT,
        values.TIMEOUT,
        PolicyKey("{} is not a valid consumer timeout", least=True, lowest=1, harmless=_STREAM),
        effects.CONSUMER_TIMEOUT,
    ),
    _queue(
        values.TIMEOUT_ACTION,
        _KEPT,
        values.ACTION,
        PolicyKey("{} is not a valid consumer timeout action", harmless=_STREAM),
        effects.CONSUMER_TIMEOUT,
        kept_elsewhere=True,
    ),
    _queue(
        "x-delayed-retry-type",
        _KEPT,
        one_of(values.RETRY_TYPES, "invalid_delayed_retry_type"),
        PolicyKey(
            "{} is not a valid delayed retry type. Must be one of: all, failed, returned, disabled",
            merge=_operators,
        ),
        effects.RETURNS,
        effects.RETRIES,
    ),
    _queue(
        "x-delayed-retry-min",
        _KEPT,
        values.RETRY_DELAY,
        PolicyKey(_RETRY % "minimum", merge=max),
        effects.RETRIES,
    ),
    _queue(
        "x-delayed-retry-max",
        _KEPT,
        values.RETRY_MAX,
        PolicyKey(_RETRY % "maximum", merge=min),
        effects.RETRIES,
    ),
    _queue("x-quorum-initial-group-size", _QUORUM, number(1)),
    _queue(
        "x-max-age",
        _STREAM,
        values.AGE,
        PolicyKey("{} is not a valid max age"),
        effects.RETENTION,
    ),
    _queue(
        "x-stream-max-segment-size-bytes",
        _STREAM,
        values.SIZE,
        PolicyKey("{} is not a valid segment size", fits=whole(0, SEGMENT_BYTES_LIMIT)),
        effects.RETENTION,
    ),
    _queue(
        "x-initial-cluster-size",
        _STREAM,
        number(1),
        PolicyKey("{} is not a valid cluster size", fits=whole(0, NUMBER_MAX)),
    ),
    _queue(
        "x-queue-leader-locator",
        _LASTING,
        one_of(
            ("client-local", "balanced", "random", "least-leaders"), "invalid_queue_locator_arg"
        ),
        PolicyKey("{} is not a valid queue leader locator value"),
    ),
)

_OF_CONSUMERS: Final = (
    _consumer("x-priority", _KEPT, values.INTEGER),
    _consumer("x-cancel-on-ha-failover", _CLASSIC, values.BOOLEAN),
    _consumer("x-credit", _ALL, None),
    _consumer("x-consumer-timeout", _KEPT, values.TIMEOUT),
    _consumer(values.TIMEOUT_ACTION, _KEPT, values.ACTION, kept_elsewhere=True),
    _consumer("x-stream-offset", _STREAM, values.STREAM_OFFSET),
    # What RabbitMQ 3.10 does not have on streams.
    _consumer(values.READER, _STREAM, values.READER_NAME, kept_elsewhere=True),
    _consumer(values.GROUP, _STREAM, values.GROUP_NAME, kept_elsewhere=True),
    _consumer(values.GROUP_VERSION, _STREAM, values.VERSION_OF_GROUP, kept_elsewhere=True),
    _consumer(values.STREAM_FILTER, _STREAM, values.TEXTS, kept_elsewhere=True),
    _consumer(values.MATCH_UNFILTERED, _STREAM, values.BOOLEAN, kept_elsewhere=True),
    _consumer("x-delivery-limit", _STREAM, values.DELIVERY_LIMIT, kept_elsewhere=True),
    _consumer("x-delayed-retry-min", _STREAM, values.RETRY_DELAY, kept_elsewhere=True),
    _consumer("x-delayed-retry-max", _STREAM, values.RETRY_MAX, kept_elsewhere=True),
    _consumer("x-dead-letter-exchange", _STREAM, values.TEXT, kept_elsewhere=True),
    _consumer("x-dead-letter-routing-key", _STREAM, values.DEAD_LETTER_KEY, kept_elsewhere=True),
)


def _mirroring(name: str, harmless: tuple[Type, ...] = ()) -> Setting:
    """Make a row of classic mirrored queues: there is one node, so these are taken and do nothing.

    `policy.definitions` looks at their values together.
    """
    key = PolicyKey("", fits=lambda value: True, harmless=harmless)
    return Setting(name, "key", _KEYS, _CLASSIC, policy=key)


MIRRORING: Final = (
    _mirroring("ha-mode"),
    _mirroring("ha-params"),
    _mirroring("ha-sync-mode"),
    _mirroring("ha-sync-batch-size", harmless=_LASTING),
    _mirroring("ha-promote-on-shutdown"),
    _mirroring("ha-promote-on-failure"),
)

# Settings of RabbitMQ 4 about replicas, and about filters of its stream protocol. Definitions that
# it exports have them.
_LATER: Final = (
    Setting(
        "target-group-size",
        "key",
        _KEYS,
        _QUORUM,
        policy=PolicyKey(
            "{} is not a valid qq target count value", merge=max, fits=whole(1, NUMBER_MAX)
        ),
    ),
    Setting(
        "member-placement-tag",
        "key",
        _KEYS,
        _QUORUM,
        policy=PolicyKey(
            "{} is not a valid member-placement-tag value. Must be a non-empty string",
            merge=_operators,
            fits=lambda value: isinstance(value, str) and value != "",
        ),
    ),
    Setting(
        "consumer-disconnected-timeout",
        "key",
        _KEYS,
        _QUORUM,
        policy=PolicyKey(
            "{} is not a valid consumer disconnected timeout", fits=whole(0, NUMBER_MAX)
        ),
    ),
    Setting(
        "stream-filter-size-bytes",
        "key",
        _KEYS,
        _STREAM,
        policy=PolicyKey(
            "{} is not a valid filter size. Valid range is 16-255", fits=whole(16, 255)
        ),
    ),
)

_PARTITIONED: Final = ("direct", "x-super-stream")

SETTINGS: Final[tuple[Setting, ...]] = (
    *_OF_QUEUES,
    # Those of later RabbitMQs and of federation, which declares queues at the other broker.
    Setting("x-consumer-disconnected-timeout", "queue", _UNREAD),
    Setting("x-ha-policy", "queue", _UNREAD),
    Setting("x-internal-purpose", "queue", _UNREAD),
    Setting("x-member-placement-tag", "queue", _UNREAD),
    Setting("x-name-prefix", "queue", _UNREAD),
    Setting("x-quorum-target-group-size", "queue", _UNREAD),
    Setting("x-stream-filter-size-bytes", "queue", _UNREAD),
    *_OF_CONSUMERS,
    *(Setting(name, "consumer", _FILTERS) for name in FILTER_ARGUMENTS),
    Setting(
        "alternate-exchange",
        "exchange",
        _EXCHANGES,
        values=values.TEXT,
        policy=PolicyKey("{} is not a valid alternate exchange name", harmless=_ALL),
        compared=True,
    ),
    Setting("x-strict-keys", "exchange", _EXCHANGES, compared=True),
    Setting("x-delayed-type", "exchange", _EXCHANGES, ("x-delayed-message",), compared=True),
    Setting("hash-header", "exchange", _EXCHANGES, ("x-consistent-hash",)),
    Setting("hash-property", "exchange", _EXCHANGES, ("x-consistent-hash",)),
    Setting("x-cache-persistence", "exchange", _EXCHANGES, ("x-message-deduplication",)),
    Setting("x-cache-size", "exchange", _EXCHANGES, ("x-message-deduplication",)),
    Setting("x-cache-ttl", "exchange", _EXCHANGES, ("x-message-deduplication",)),
    Setting("x-recent-history-length", "exchange", _EXCHANGES, ("x-recent-history",)),
    Setting("x-super-stream", "exchange", _EXCHANGES, _PARTITIONED),
    Setting("x-match", "binding", _BINDINGS, ("headers",)),
    Setting("x-stream-partition-order", "binding", _BINDINGS, _PARTITIONED),
    *(Setting(name, "binding", _FILTERS) for name in FILTER_ARGUMENTS),
    *(
        Setting(name, "policy", _POLICIES)
        for name in ("pattern", "definition", "priority", "apply-to", "name", "vhost")
    ),
    *MIRRORING,
    *_LATER,
)
"""All of them. Which arguments of exchanges are wrong says whoever reads them."""

NAMES: Final[Mapping[str, frozenset[str]]] = {
    place: frozenset(each.name for each in SETTINGS if each.place == place)
    for place in ("queue", "exchange", "binding", "consumer", "policy")
}
"""Those of each place; unknown parameters of a table are refused."""

KEYS: Final[Mapping[str, PolicyKey]] = {
    each.key: each.policy for each in SETTINGS if each.policy is not None
}
"""What the definition of a policy may have."""

COMPARED: Final = tuple(
    each.name for each in SETTINGS if each.place == "exchange" and each.compared
)
"""Arguments of exchanges that must be the same when one is declared again."""


def known_to(place: Place, kind: str) -> tuple[Setting, ...]:
    """Return what queues of a type read in one place."""
    return tuple(each for each in SETTINGS if each.place == place and kind in each.types)


def is_right(key: str, value: Any) -> bool:
    """Say whether a value of a policy is right; the key must be known."""
    fits = KEYS[key].fits
    return fits(value) if fits is not None else _VALUES[key].fits(value)


_VALUES: Final[Mapping[str, Values]] = {
    each.key: each.values
    for each in SETTINGS
    if each.policy is not None and each.values is not None
}

STRANGE: Final[Mapping[str, frozenset[str]]] = {
    kind: frozenset(
        each.key
        for each in SETTINGS
        if each.policy is not None and kind not in each.types + each.policy.harmless
    )
    for kind in _ALL
}
"""By type of queue: a policy with one of these does not apply to it at all, not even with its other
settings. RabbitMQ has delivery-limit among those of classic queues; here they know it."""
