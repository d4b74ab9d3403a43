"""What may stand in the definition of a policy, and how it meets arguments and other policies.

Responsible for each key's values, with RabbitMQ's sentences for wrong ones, for the types of queue
that it makes sense for, and for which of two values counts. Must not know which queue a policy is
for. Invariant: a definition that passes has values that the engine takes, and an encoding as an
AMQP table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, TypeAlias

from leporid.amqp.tables import Value
from leporid.amqp.values import erlang_text
from leporid.broker.arguments import DELIVERY_LIMIT_MAX, EXPIRY_MS_MAX, RETRY_TYPES, TIMEOUT_ACTIONS
from leporid.broker.durations import milliseconds
from leporid.broker.queue_types import CLASSIC, QUORUM, STREAM, QueueType
from leporid.broker.streams import SEGMENT_BYTES_LIMIT

Definition: TypeAlias = Mapping[str, Value]

NUMBER_MAX: Final = 2**63 - 1
"""The largest number that an AMQP table holds; no limit of ours is larger."""

TEXT_BYTES_MAX: Final = 255
"""Names of exchanges and routing keys are short strings."""


NEAR: Final = 0.8
"""How near a setting is to one that exists, as difflib counts, to be taken for it."""

UNKNOWN_MAX: Final = 16
"""Unknown settings that are compared with those that exist."""

NODES_MAX: Final = 255
"""Names in ha-params; a definition must fit into an AMQP table, and there is one node anyway."""


class PolicyError(ValueError):
    """A policy that cannot be used; the message is RabbitMQ's sentence, where it has one."""


@dataclass(frozen=True, slots=True)
class Key:
    """One setting of policies.

    Attributes:
        is_right: whether a value is one.
        wrong: the sentence for one that is not; {} stands for it.
        least: of policy and argument the smaller value counts, else the argument's.
        merge: for a key that operator policies may have: of a policy's value and the operator
            policy's, the one that counts.
    """

    is_right: Callable[[Any], bool]
    wrong: str
    least: bool = False
    merge: Callable[[Any, Any], Any] | None = None


def _whole(least: int, most: int = NUMBER_MAX) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    )


def _word(*words: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in words


def _text(value: Any) -> bool:
    try:
        return isinstance(value, str) and len(value.encode()) <= TEXT_BYTES_MAX
    except UnicodeEncodeError:
        return False


def _age(value: Any) -> bool:
    return isinstance(value, str) and milliseconds(value) is not None


def _any(_value: Any) -> bool:
    return True  # _wrong_mirroring looks at them together


def _operators(_value: Any, operators: Any) -> Any:
    return operators


def _limit(wrong: str, least: int = 0, most: int = NUMBER_MAX) -> Key:
    return Key(_whole(least, most), f"{{}} is not a valid {wrong}", least=True, merge=min)


_MEMORY: Final = "maximum memory in bytes"
_RETRY: Final = "delayed retry {} delay. Must be a positive integer"
_retry_delay = _whole(1, EXPIRY_MS_MAX)

# Classic mirrored queues: there is one node, so these are taken and do nothing.
_MIRRORING: Final = (
    "ha-mode",
    "ha-params",
    "ha-sync-mode",
    "ha-sync-batch-size",
    "ha-promote-on-shutdown",
    "ha-promote-on-failure",
)

KEYS: Final[Mapping[str, Key]] = {
    "alternate-exchange": Key(_text, "{} is not a valid alternate exchange name"),
    "consumer-timeout": Key(
        _whole(0, EXPIRY_MS_MAX), "{} is not a valid consumer timeout", least=True
    ),
    "consumer-timeout-action": Key(
        _word(*TIMEOUT_ACTIONS), "{} is not a valid consumer timeout action"
    ),
    "dead-letter-exchange": Key(_text, "{} is not a valid dead letter exchange name"),
    "dead-letter-routing-key": Key(_text, "{} is not a valid dead letter routing key"),
    "dead-letter-strategy": Key(
        _word("at-most-once", "at-least-once"), "{} is not a valid dead letter strategy"
    ),
    "delayed-retry-type": Key(
        _word(*RETRY_TYPES),
        "{} is not a valid delayed retry type. Must be one of: all, failed, returned, disabled",
        merge=_operators,
    ),
    "delayed-retry-min": Key(
        _retry_delay, f"{{}} is not a valid {_RETRY.format('minimum')}", merge=max
    ),
    "delayed-retry-max": Key(
        _retry_delay, f"{{}} is not a valid {_RETRY.format('maximum')}", merge=min
    ),
    "delivery-limit": _limit("delivery limit", 0, DELIVERY_LIMIT_MAX),
    "expires": _limit("queue expiry", 1, EXPIRY_MS_MAX),
    "initial-cluster-size": Key(_whole(0), "{} is not a valid cluster size"),
    "max-age": Key(_age, "{} is not a valid max age"),
    "max-in-memory-bytes": _limit(_MEMORY),
    "max-in-memory-length": _limit(_MEMORY),
    "max-length": _limit("maximum length"),
    "max-length-bytes": _limit("maximum length in bytes"),
    "message-ttl": _limit("message TTL", 0, EXPIRY_MS_MAX),
    "overflow": Key(
        _word("drop-head", "reject-publish", "reject-publish-dlx"),
        "{} is not a valid overflow value",
        merge=_operators,
    ),
    "queue-leader-locator": Key(
        _word("client-local", "balanced", "random", "least-leaders"),
        "{} is not a valid queue leader locator value",
    ),
    "queue-master-locator": Key(
        _word("min-masters", "client-local", "random"), "{} invalid queue-master-locator value"
    ),
    "queue-mode": Key(_word("default", "lazy"), "{} is not a valid queue-mode value"),
    "queue-version": Key(_whole(1, 2), "{} is not a valid queue-version value"),
    "stream-max-segment-size-bytes": Key(
        _whole(0, SEGMENT_BYTES_LIMIT), "{} is not a valid segment size"
    ),
    **{name: Key(_any, "") for name in _MIRRORING},
}

# A policy with one of these does not apply to queues of that type at all, not even with its other
# keys. RabbitMQ has delivery-limit among those of classic queues; here they know it.
_STRANGE: Final[Mapping[QueueType, frozenset[str]]] = {
    CLASSIC: frozenset(
        {
            "max-age",
            "stream-max-segment-size-bytes",
            "queue-leader-locator",
            "initial-cluster-size",
            "dead-letter-strategy",
        }
    ),
    QUORUM: frozenset(
        {
            "queue-mode",
            "queue-master-locator",
            "max-age",
            "stream-max-segment-size-bytes",
            "initial-cluster-size",
            *_MIRRORING,
        }
    )
    - {"ha-sync-batch-size"},
    STREAM: frozenset(
        {
            "expires",
            "message-ttl",
            "dead-letter-exchange",
            "dead-letter-routing-key",
            "dead-letter-strategy",
            "delayed-retry-type",
            "delayed-retry-min",
            "delayed-retry-max",
            "delivery-limit",
            "max-length",
            "max-in-memory-length",
            "max-in-memory-bytes",
            "overflow",
            "queue-mode",
            "queue-master-locator",
            *_MIRRORING,
        }
    )
    - {"ha-sync-batch-size"},
}

# Where the policy counts although there is an argument, as in RabbitMQ; None: always.
_POLICY_FIRST: Final[Mapping[QueueType, frozenset[str] | None]] = {
    CLASSIC: frozenset(),
    QUORUM: frozenset({"overflow", "expires"}),
    STREAM: None,
}


def makes_sense(definition: Iterable[str], kind: QueueType) -> bool:
    """Say whether a policy with these keys applies to queues of that type."""
    return _STRANGE[kind].isdisjoint(definition)


def merged(definition: Definition, operators: Definition) -> Definition:
    """Put an operator policy's definition over a policy's."""
    both = {**definition, **operators}
    for name in definition.keys() & operators.keys():
        merge = KEYS[name].merge
        assert merge is not None, "no operator policy has such a key"
        both[name] = merge(definition[name], operators[name])
    return both


def counting(name: str, argument: Value, by_policy: Value, kind: QueueType) -> Value:
    """Of an argument and what the policies say, return the one that counts."""
    policy_first = _POLICY_FIRST[kind]
    if policy_first is None or name in policy_first:
        return by_policy
    if KEYS[name].least and isinstance(argument, int) and isinstance(by_policy, int):
        # Only a delivery limit may be negative: none.
        return by_policy if argument < 0 else min(argument, by_policy)
    return argument


def check_definition(definition: object, *, operator: bool) -> Definition:
    """Check a definition as JSON or TOML has it.

    Raises:
        PolicyError: it is none.
    """
    if not isinstance(definition, dict):
        raise PolicyError(f"definition must be a dictionary: {term(definition)}")
    if not definition:
        raise PolicyError("no policy provided")
    known = [name for name in sorted(definition) if name in KEYS]
    if operator:
        known = [name for name in known if KEYS[name].merge is not None]
    for name in known:
        if not KEYS[name].is_right(definition[name]):
            raise PolicyError(KEYS[name].wrong.replace("{}", term(definition[name])))
    wrong = _wrong_mirroring(definition) or _wrong_retries(definition)
    if wrong is not None and set(known).issuperset(definition):
        raise PolicyError(wrong)
    unknown = [f"{{{term(each)},{term(definition[each])}}}" for each in sorted(definition)
               if each not in known]  # fmt: skip
    if unknown:
        raise PolicyError(
            f"[{','.join(unknown)}] are not recognised policy settings{_meant(definition)}"
        )
    return {name: definition[name] for name in sorted(definition)}


def _meant(definition: Iterable[str]) -> str:
    """Say which setting the first misspelt one comes near to, if there is one; "" otherwise."""
    for name in islice((each for each in sorted(definition) if each not in KEYS), UNKNOWN_MAX):
        plain = name.removeprefix("x-").replace("_", "-")
        near = get_close_matches(plain, KEYS, 1, NEAR) if len(name) <= TEXT_BYTES_MAX else []
        if near:
            return f"; did you mean {near[0]}?"
    return ""


def _wrong_retries(definition: Mapping[str, Any]) -> str | None:
    kind, least = definition.get("delayed-retry-type"), definition.get("delayed-retry-min")
    most = definition.get("delayed-retry-max")
    if kind not in (None, "disabled") and least is None:
        return f"delayed-retry-min is required when delayed-retry-type is {kind}"
    if least is not None and most is not None and most < least:
        return f"delayed-retry-max ({most}) must not be smaller than delayed-retry-min ({least})"
    return None


def _wrong_mirroring(definition: Mapping[str, Any]) -> str | None:
    """What is wrong with the keys of mirroring, whose sentences do not all name the value."""
    mode = definition.get("ha-mode")
    if mode is None:
        if any(name in definition for name in _MIRRORING):
            return (
                "ha-mode must be specified to specify ha-params, ha-sync-mode or "
                "ha-promote-on-shutdown"
            )
        return None
    wrong = _wrong_mode(mode, definition.get("ha-params"))
    if wrong is not None:
        return wrong
    sync = definition.get("ha-sync-mode", "manual")
    if sync not in ("manual", "automatic"):
        return f'ha-sync-mode must be "manual" or "automatic", got {term(sync)}'
    batch = definition.get("ha-sync-batch-size", 1)
    if not _whole(1)(batch):
        return f"ha-sync-batch-size takes an integer greater than 0, {term(batch)} given"
    for name in ("ha-promote-on-shutdown", "ha-promote-on-failure"):
        value = definition.get(name, "always")
        if value not in ("always", "when-synced"):
            return f'{name} must be "always" or "when-synced", got {term(value)}'
    return None


def _wrong_mode(mode: Any, params: Any) -> str | None:
    given = "none" if params is None else term(params)
    if mode == "all":
        return None if params is None else 'ha-mode="all" does not take parameters'
    if mode == "exactly":
        right = _whole(1)(params)
        return None if right else f'ha-mode="exactly" takes an integer, {given} given'
    if mode == "nodes" and isinstance(params, list) and len(params) > NODES_MAX:
        return f'ha-mode="nodes" takes a list of at most {NODES_MAX} names'
    if mode == "nodes":
        right = isinstance(params, list) and bool(params) and all(map(_text, params))
        return None if right else f'ha-mode="nodes" takes a list, {given} given'
    return f"{term(mode)} is not a valid ha-mode value"


def plain(value: Any) -> str:
    """Write a value of JSON without quotes, if it is a text."""
    return value if isinstance(value, str) else term(value)


def term(value: Any) -> str:
    """Write a value of JSON as RabbitMQ prints it."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{','.join(map(term, value))}]"
    if isinstance(value, dict):
        return f"#{{{','.join(f'{term(key)} => {term(each)}' for key, each in value.items())}}}"
    if isinstance(value, str):
        # A lone surrogate, which JSON may hold, has no bytes to print.
        value = value.encode("utf-8", "replace").decode()
    return erlang_text(value) if isinstance(value, str | int | float) else str(value)
