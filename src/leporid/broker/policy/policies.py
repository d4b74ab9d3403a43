"""Policies: what an administrator says about queues and exchanges by their names.

Responsible for a policy being whole and checked, for which of them governs a queue or exchange,
and for what that means together with its arguments. Must not know when anything is made, and
changes nothing by itself. Invariant: looking for the policy of a name takes time linear in the
name, whatever the patterns; one policy and one operator policy govern at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import re2  # type: ignore[import-untyped, unused-ignore]

from leporid.amqp.tables import Value
from leporid.broker.access.permissions import Pattern, PatternError
from leporid.broker.policy.definitions import (
    TEXT_BYTES_MAX,
    Definition,
    PolicyError,
    check_definition,
    counting,
    makes_sense,
    merged,
    plain,
    term,
)
from leporid.broker.queue.queue_types import CLASSIC, QUORUM, STREAM, QueueType
from leporid.broker.settings.values import NUMBER_MAX, Arguments

__all__ = ["NOT_GOVERNED", "Governed", "Policies", "Policy", "PolicyError", "make_policy"]

Kind: TypeAlias = Literal["queue", "exchange"]

POLICIES_MAX: Final = 1000
"""Of one kind in one virtual host. Each declaration is matched against all of them, which takes
milliseconds at this number if it must be done one by one."""

# What apply-to may be, and the types of queue that it means.
_QUEUES: Final[Mapping[str, frozenset[QueueType]]] = {
    "queues": frozenset({CLASSIC, QUORUM, STREAM}),
    "classic_queues": frozenset({CLASSIC}),
    "quorum_queues": frozenset({QUORUM}),
    "streams": frozenset({STREAM}),
    "exchanges": frozenset(),
    "all": frozenset({CLASSIC, QUORUM, STREAM}),
}
_EXCHANGES: Final = ("all", "exchanges")
APPLY_TO: Final = tuple(_QUEUES)
"""What a policy may be for."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy; `make_policy` checks what comes from outside.

    Attributes:
        compiled: its pattern, which takes 20 microseconds: a thousand of them are asked one by one
            if they cannot be compiled as one.
    """

    name: str
    pattern: str
    definition: Definition
    priority: int = 0
    apply_to: str = "all"
    operator: bool = False
    compiled: Pattern = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", _compile(self.pattern))

    def concerns_queues(self, kind: QueueType) -> bool:
        """Say whether it may govern queues of that type, if their names match."""
        return kind in _QUEUES[self.apply_to] and makes_sense(self.definition, kind)

    @property
    def concerns_exchanges(self) -> bool:
        """Say whether it may govern exchanges, if their names match."""
        return self.apply_to in _EXCHANGES


def make_policy(
    name: str,
    pattern: Any,
    definition: Any,
    *,
    priority: Any = 0,
    apply_to: Any = "all",
    operator: bool = False,
) -> Policy:
    """Make a policy of what JSON or TOML hold.

    Raises:
        PolicyError: something in it is not allowed.
    """
    if not 0 < len(name.encode("utf-8", "surrogatepass")) <= TEXT_BYTES_MAX:
        raise PolicyError(f"a name has 1 to {TEXT_BYTES_MAX} bytes")
    whole = isinstance(priority, int) and not isinstance(priority, bool)
    if not whole or abs(priority) > NUMBER_MAX:
        raise PolicyError(f"priority should be a number, actually was {term(priority)}")
    if not isinstance(pattern, str):
        raise PolicyError(f"pattern should be a binary but was {term(pattern)}")
    _compile(pattern)
    if not isinstance(apply_to, str) or apply_to not in _QUEUES:
        *most, last = (f"'{word}'" for word in APPLY_TO)
        raise PolicyError(
            f"apply-to '{plain(apply_to)}' unrecognised; should be one of: {', '.join(most)}, "
            f"or {last}"
        )
    checked = check_definition(definition, operator=operator)
    return Policy(name, pattern, checked, priority, apply_to, operator)


@dataclass(frozen=True, slots=True, eq=False)
class Governed:
    """What governs one queue or exchange: its policy, its operator policy, both as one."""

    policy: Policy | None = None
    operator_policy: Policy | None = None
    definition: Definition = field(init=False)

    def __post_init__(self) -> None:
        own = {} if self.policy is None else self.policy.definition
        operators = {} if self.operator_policy is None else self.operator_policy.definition
        object.__setattr__(self, "definition", merged(own, operators))

    def effective(self, key: str, arguments: Arguments, kind: QueueType) -> Value:
        """Return what counts for a queue of that type; None if nothing is said.

        Args:
            key: as policies name it; the argument has `x-` in front.
            arguments: those of the queue.
            kind: its type.
        """
        argument, by_policy = arguments.get("x-" + key), self.definition.get(key)
        if by_policy is None:
            return argument
        return by_policy if argument is None else counting(key, argument, by_policy, kind)


NOT_GOVERNED: Final = Governed()


class Policies:
    """The policies of one virtual host, of both kinds.

    Args:
        configured: those of the configuration file, which hide recorded ones of their names.
    """

    def __init__(self, configured: Iterable[Policy] = ()) -> None:
        self._configured = {(each.operator, each.name): each for each in configured}
        self._recorded: dict[tuple[bool, str], Policy] = {}
        self._pairs: dict[tuple[int, int], Governed] = {}
        self._kinds: dict[bool, _Kind] = {}

    def configure(self, configured: Iterable[Policy]) -> None:
        """Have other policies of the configuration file, in place of those that there were."""
        self._configured = {(each.operator, each.name): each for each in configured}
        self._pairs.clear()
        self._kinds.clear()

    def __iter__(self) -> Iterator[Policy]:
        """Go through those that are in force."""
        return iter((self._recorded | self._configured).values())

    def __bool__(self) -> bool:
        return bool(self._recorded or self._configured)

    def find(self, name: str, *, operator: bool) -> Policy | None:
        """Return the one in force under a name, None without one."""
        key = operator, name
        return self._configured.get(key) or self._recorded.get(key)

    def is_configured(self, name: str, *, operator: bool) -> bool:
        """Say whether it is the configuration file's."""
        return (operator, name) in self._configured

    def has_room(self, policy: Policy) -> bool:
        """Say whether there may be one more of its kind."""
        count = sum(each.operator == policy.operator for each in self)
        return count < POLICIES_MAX or self.find(policy.name, operator=policy.operator) is not None

    def put(self, policy: Policy) -> None:
        """Add a policy, or replace the one of its name and kind."""
        self._recorded[policy.operator, policy.name] = policy
        self._forget(operator=policy.operator)

    def drop(self, name: str, *, operator: bool) -> None:
        """Forget a policy that is there."""
        del self._recorded[operator, name]
        self._forget(operator=operator)

    def changed(self, name: str, *, operator: bool, policy: Policy | None) -> Policies:
        """Return what these would be with one recorded policy set; None: dropped."""
        found = Policies(self._configured.values())
        found._recorded = {key: each for key, each in self._recorded.items()
                           if key != (operator, name)}  # fmt: skip
        if policy is not None:
            found.put(policy)
        return found

    def _forget(self, *, operator: bool) -> None:
        self._pairs.clear()
        self._kinds.pop(operator, None)

    def of_queue(self, name: str, kind: QueueType) -> Governed:
        """Return what governs a queue."""
        if not self:
            return NOT_GOVERNED
        own, operators = (
            next((each for each in found if each.concerns_queues(kind)), None)
            for found in self._matching(name)
        )
        return self._pair(own, operators)

    def of_exchange(self, name: str) -> Governed:
        """Return what governs an exchange."""
        if not self:
            return NOT_GOVERNED
        own, operators = (
            next((each for each in found if each.concerns_exchanges), None)
            for found in self._matching(name)
        )
        return self._pair(own, operators)

    def _matching(self, name: str) -> tuple[list[Policy], list[Policy]]:
        """Return policies, and operator policies, that match; the one that counts most first."""
        for operator in {False, True} - self._kinds.keys():
            self._kinds[operator] = _Kind([each for each in self if each.operator == operator])
        return self._kinds[False].matching(name), self._kinds[True].matching(name)

    def _pair(self, own: Policy | None, operators: Policy | None) -> Governed:
        """The same object for the same two, so that comparing ten thousand costs nothing."""
        if own is None and operators is None:
            return NOT_GOVERNED
        key = id(own), id(operators)  # a policy's definition has no hash
        found = self._pairs.get(key)
        if found is None:
            found = self._pairs[key] = Governed(own, operators)
        return found


class _Kind:
    """The policies of one kind, ready to be matched."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        # RabbitMQ leaves open which of several with one priority counts; here it is the first by
        # name, so that it is the same one after every restart.
        self._policies = sorted(policies, key=lambda each: (-each.priority, each.name))
        self._set = _set_of([each.pattern for each in self._policies])

    def matching(self, name: str) -> list[Policy]:
        if not self._policies:
            return []
        found: list[int] = (self._set.Match(name) or []) if self._set is not None else []
        # The last pattern matches everything: without it, RE2 had no memory for so many at once.
        if len(self._policies) in found:
            return [self._policies[at] for at in sorted(found)[:-1]]
        return [policy for policy in self._policies if policy.compiled.matches(name)]


def _compile(pattern: str) -> Pattern:
    """Compile a pattern; the empty one matches everything, unlike that of a permission."""
    try:
        return Pattern(pattern or "(?:)")
    except PatternError as error:
        raise PolicyError(f"pattern should be regular expression but {error}") from None


def _set_of(patterns: list[str]) -> Any:
    """Compile many patterns as one, and one more that matches everything; None if that fails."""
    options = re2.Options()
    options.log_errors = False
    together = re2.Set.SearchSet(options)
    for pattern in (*patterns, ""):
        together.Add(pattern)
    try:
        together.Compile()
    except re2.error:
        return None
    return together
