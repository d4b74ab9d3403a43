"""The headers exchange: a binding's arguments say which headers a message must have.

`x-match` says how: `all` of them (the default) or `any`, where arguments whose name begins with
`x-` are left out; `all-with-x` and `any-with-x` take these in, except `x-match` itself and what
asks for a filter. A value must be equal to the message's as RabbitMQ compares them (see
`amqp.values`); a void one asks only that the header is there. `all` of nothing is met by every
message, `any` of nothing by none.

What a binding asks of headers is a filter to the engine, as one in SQL is: so routes are cached,
and a message that is published costs no Python, unless a binding asks for an array or a table.
Where a message is routed by itself, as a dead letter is, a binding is looked up by the headers it
waits for: the message costs its own headers and the bindings that one of them concerns, not all
bindings; their filters are asked then, too.

Invariants: a binding is found through each of its terms if it is an `any`, through exactly one of
them if it is an `all`; its filter lets those messages pass that meet it.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import LazyContainer, LongString, Value, octets_of
from leporid.amqp.values import TERMS_A_STEP, comparable, comparing, erlang_text, type_name
from leporid.broker.exchange.types.base import Binding, DistinctDestinations, Router
from leporid.broker.exchange.types.message import RoutedMessage
from leporid.broker.filter.filter_arguments import FILTER_ARGUMENTS
from leporid.broker.registry import StepsTo, finished
from leporid.engine.bounds.sharded_dict import ShardedDict
from leporid.engine.selectors.header_match import HeaderMatch, can_compare

X_MATCH: Final = "x-match"
_MODES: Final = ("all", "any", "all-with-x", "any-with-x")

_PRESENT: Final = object()
"""Stands for the value of a void argument; equal to nothing that a header can hold."""

RULES_A_STEP: Final = 64
"""Bindings that are compared with a message, of which each takes a microsecond or two."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A binding's arguments, read once.

    Attributes:
        binding: The binding.
        any: Whether one term is enough.
        terms: Name and value wanted. The first is the one an `all` is looked up by.
    """

    binding: Binding
    any: bool
    terms: tuple[tuple[str, Hashable], ...]

    @property
    def unconditional(self) -> bool:
        """Whether every message meets it."""
        return not self.any and not self.terms

    @property
    def compared_here(self) -> bool:
        """Whether the engine cannot compare a term, such as an array."""
        return not all(wanted is _PRESENT or can_compare(wanted) for _, wanted in self.terms)

    def filter(self) -> HeaderMatch:
        """Returns the same for the engine."""
        terms = [
            (octets_of(name), None if wanted is _PRESENT else wanted) for name, wanted in self.terms
        ]
        return HeaderMatch(terms, self.any)

    def lookups(self) -> tuple[tuple[str, Hashable], ...]:
        """Returns the terms under which the binding is filed."""
        return self.terms if self.any else self.terms[:1]

    def holds(self, headers: Mapping[str, Hashable]) -> bool:
        """Whether all terms are met."""
        return all(
            name in headers and (wanted is _PRESENT or headers[name] == wanted)
            for name, wanted in self.terms
        )


_NO_RULES: Final[Mapping[Binding, _Rule]] = {}


class HeadersRouter(Router):
    """Bindings by the headers they wait for."""

    description = "AMQP headers exchange, as per the AMQP specification"
    ignores_keys = True
    looks_up = True

    def __init__(self, *, strict_keys: bool = False) -> None:
        super().__init__(strict_keys=strict_keys)
        # Bindings with a term that the engine cannot compare: with one, it is asked each time.
        self._compared_here = 0
        self.per_message = False
        self._unconditional = DistinctDestinations()
        self._conditional: ShardedDict[Binding, _Rule] = ShardedDict()
        self._waiting: dict[str, dict[Hashable, dict[Binding, _Rule]]] = {}

    def validate(self, key: str, arguments: Mapping[str, Value]) -> None:
        """Checks `x-match`, too.

        Raises:
            PreconditionFailed: It is none of the four, in RabbitMQ's words.
        """
        super().validate(key, arguments)
        if X_MATCH not in arguments:
            return
        mode = arguments[X_MATCH]
        if not isinstance(mode, str | LongString):
            raise PreconditionFailed(
                f"Invalid x-match field type {type_name(mode)} (value {erlang_text(mode)}); "
                "expected longstr"
            )
        if mode not in _MODES:
            raise PreconditionFailed(
                f"Invalid x-match field value {erlang_text(mode)}; "
                "expected all, any, all-with-x, or any-with-x"
            )

    def add(self, binding: Binding) -> None:
        """Files the binding under what it waits for."""
        rule = _rule(binding)
        for name, wanted in rule.lookups():
            self._waiting.setdefault(name, {}).setdefault(wanted, {})[binding] = rule
        if rule.unconditional:
            self._unconditional.add(binding)
        else:
            self._conditional[binding] = rule
            self._count_compared_here(rule, 1)

    def remove(self, binding: Binding) -> None:
        """Takes it out wherever it was filed."""
        rule = self._conditional.pop(binding)
        if rule is None:
            self._unconditional.remove(binding)
            return
        self._count_compared_here(rule, -1)
        for name, wanted in rule.lookups():
            by_value = self._waiting[name]
            del by_value[wanted][binding]
            if not by_value[wanted]:
                del by_value[wanted]
                if not by_value:
                    del self._waiting[name]

    def condition(self, binding: Binding) -> HeaderMatch | None:
        """Returns what its terms ask of the headers, if the engine can compare them."""
        rule = self._conditional.get(binding)
        return None if rule is None or rule.compared_here else rule.filter()

    def _count_compared_here(self, rule: _Rule, change: int) -> None:
        self._compared_here += change * rule.compared_here
        self.per_message = self._compared_here > 0

    def keys_of(self, binding: Binding) -> Callable[[str], bool] | None:
        """Says that all do, unless more matters that the engine does not compare."""
        return None if self.per_message else lambda key: True

    def match(self, message: RoutedMessage) -> Iterable[Binding]:
        """Returns the bindings whose terms the headers meet, or may meet if they are not known."""
        return finished(self.matching(message))

    def matching(self, message: RoutedMessage) -> StepsTo[Iterable[Binding]]:
        """The same, in steps of so many headers and bindings."""
        if message.known and self._waiting:
            return (yield from self._meeting(message))
        return [*self._unconditional, *(() if message.known else self._conditional)]

    def _meeting(self, message: RoutedMessage) -> StepsTo[Iterable[Binding]]:
        """Returns the bindings whose terms the headers meet, in steps."""
        matched = dict.fromkeys(self._unconditional)
        terms: dict[str, Hashable] = {}
        for name, value in message.headers():
            if isinstance(value, LazyContainer):
                terms[name] = yield from comparing(value)
            else:
                terms[name] = comparable(value)
            if not len(terms) % TERMS_A_STEP:
                yield None
        looked_up = 0
        for name, term in terms.items():
            looked_up += 1
            if not looked_up % TERMS_A_STEP:
                yield None
            by_value = self._waiting.get(name)
            if by_value is None:
                continue
            for wanted in (term, _PRESENT):
                # A copy: bindings may come and go between two steps.
                rules = [*by_value.get(wanted, _NO_RULES).values()]
                for at in range(0, len(rules), RULES_A_STEP):
                    for rule in rules[at : at + RULES_A_STEP]:
                        if rule.any or rule.holds(terms):
                            matched[rule.binding] = None
                    if at + RULES_A_STEP < len(rules):
                        yield None
        return matched


def _rule(binding: Binding) -> _Rule:
    arguments = binding.arguments
    mode = arguments.get(X_MATCH, "all")
    with_x = mode in ("all-with-x", "any-with-x")
    terms = [
        (name, _PRESENT if value is None else comparable(value))
        for name, value in arguments.items()
        if name != X_MATCH
        and name not in FILTER_ARGUMENTS
        and (with_x or not name.startswith("x-"))
    ]
    # A value narrows the look-up down more than mere presence does.
    terms.sort(key=lambda term: (term[1] is _PRESENT, term[0]))
    return _Rule(binding, mode in ("any", "any-with-x"), tuple(terms))
