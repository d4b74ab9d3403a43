"""What may stand in the definition of a policy, and how it meets arguments and other policies.

Responsible for a definition as a whole, with RabbitMQ's sentences for wrong ones, and for applying
what `settings.table` says of each key: the types of queue that it makes sense for, and which of two
values counts. Must not know which queue a policy is for. Invariant: a definition that passes has
values that the engine takes, and an encoding as an AMQP table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import chain, islice
from typing import Any, Final, TypeAlias

from leporid.amqp.tables import Value
from leporid.amqp.values import erlang_text
from leporid.broker.queue.queue_types import STREAM, QueueType
from leporid.broker.settings.table import KEYS, MIRRORING, STRANGE, is_right
from leporid.broker.settings.values import NUMBER_MAX, fits_name, whole

Definition: TypeAlias = Mapping[str, Value]

TEXT_BYTES_MAX: Final = 255
"""Names of exchanges and routing keys are short strings."""


NEAR: Final = 0.8
"""How near a setting is to one that exists, as difflib counts, to be taken for it."""

UNKNOWN_MAX: Final = 16
"""Unknown settings that are compared with those that exist."""

SHOWN_MAX: Final = 1000
"""Characters of a wrong value that its refusal shows. To write a megabyte took 0.2 s."""

SHOWN_DEPTH_MAX: Final = 8
"""Lists and objects within each other that it shows: each character passes all that it is in."""

NODES_MAX: Final = 255
"""Names in ha-params; a definition must fit into an AMQP table, and there is one node anyway."""


class PolicyError(ValueError):
    """A policy that cannot be used; the message is RabbitMQ's sentence, where it has one."""


_MIRRORING: Final = tuple(each.name for each in MIRRORING)


def makes_sense(definition: Iterable[str], kind: QueueType) -> bool:
    """Say whether a policy with these keys applies to queues of that type."""
    return STRANGE[kind.name].isdisjoint(definition)


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
    # Of a stream every policy counts although there is an argument, as in RabbitMQ.
    if kind is STREAM or kind.name in KEYS[name].first:
        return by_policy
    if KEYS[name].least and isinstance(argument, int) and isinstance(by_policy, int):
        limits = [each for each in (argument, by_policy) if each >= KEYS[name].lowest]
        return min(limits, default=argument)
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
    names = sorted(definition)
    known = [name for name in names if name in KEYS]
    if operator:
        known = [name for name in known if KEYS[name].merge is not None]
    for name in known:
        if not is_right(name, definition[name]):
            raise PolicyError(KEYS[name].wrong.replace("{}", term(definition[name])))
    wrong = _wrong_mirroring(definition) or _wrong_retries(definition)
    if wrong is not None and set(known).issuperset(definition):
        raise PolicyError(wrong)
    if len(known) < len(names):
        unknown = [name for name in names if name not in known]
        pairs = (("{", term(each), ",", term(definition[each]), "}") for each in unknown)
        shown = _beginning(chain("[", _joined(pairs), "]"))
        raise PolicyError(f"{shown} are not recognised policy settings{_meant(names)}")
    return {name: definition[name] for name in names}


def _meant(names: Iterable[str]) -> str:
    """Say which setting the first misspelt one comes near to, if there is one; "" otherwise."""
    for name in islice((each for each in names if each not in KEYS), UNKNOWN_MAX):
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
    if not whole(1, NUMBER_MAX)(batch):
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
        right = whole(1, NUMBER_MAX)(params)
        return None if right else f'ha-mode="exactly" takes an integer, {given} given'
    if mode == "nodes" and isinstance(params, list) and len(params) > NODES_MAX:
        return f'ha-mode="nodes" takes a list of at most {NODES_MAX} names'
    if mode == "nodes":
        right = isinstance(params, list) and bool(params) and all(map(fits_name, params))
        return None if right else f'ha-mode="nodes" takes a list, {given} given'
    return f"{term(mode)} is not a valid ha-mode value"


def plain(value: Any) -> str:
    """Write a value of JSON without quotes, if it is a text."""
    return value if isinstance(value, str) else term(value)


def term(value: Any) -> str:
    """Write a value of JSON as RabbitMQ prints it; of a long one, the beginning."""
    return _beginning(_terms(value))


def _beginning(texts: Iterable[str]) -> str:
    """Put texts together, and make no more of them when they are long."""
    made, size = [], 0
    for text in texts:
        made.append(text)
        size += len(text)
        if size > SHOWN_MAX:
            return "".join(made)[:SHOWN_MAX] + "…"
    return "".join(made)


def _terms(value: Any, depth: int = 0) -> Iterator[str]:
    if value is None:
        yield "null"
    elif isinstance(value, list | dict) and depth == SHOWN_DEPTH_MAX:
        yield "…"
    elif isinstance(value, list):
        yield "["
        yield from _joined(_terms(each, depth + 1) for each in value)
        yield "]"
    elif isinstance(value, dict):
        yield "#{"
        yield from _joined(
            chain(_terms(key), (" => ",), _terms(value[key], depth + 1)) for key in value
        )
        yield "}"
    elif isinstance(value, str):
        # A lone surrogate, which JSON may hold, has no bytes to print.
        yield erlang_text(value[: SHOWN_MAX + 1].encode("utf-8", "replace").decode())
    else:
        yield erlang_text(value) if isinstance(value, int | float) else str(value)


def _joined(parts: Iterable[Iterable[str]]) -> Iterator[str]:
    """Go through the texts of parts, with commas between these."""
    between = ""
    for part in parts:
        yield between
        yield from part
        between = ","
