"""What a binding is, and what every exchange type answers.

A `Router` holds the bindings of one exchange and says which of them a message meets. It must not
know other exchanges, queues, alternate exchanges or caches; that is `topology`'s business.

Invariants: unless a type is `per_message`, `match` depends on nothing but the bindings held and the
keys, so its answer may be kept until one of the bindings changes. What `matching` does between two
steps takes about 0.1 ms at most, whatever the message and the bindings are, but for copying a list.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

from leporid.amqp.tables import Value
from leporid.amqp.values import comparable_table
from leporid.broker.exchange.types.message import RoutedMessage
from leporid.broker.exchange.types.strict_keys import check_pattern, check_plain_key
from leporid.broker.filter.filter_arguments import FILTER_ARGUMENTS
from leporid.broker.registry import StepsTo
from leporid.engine.bounds.sharded_dict import ShardedDict
from leporid.engine.selectors.filter import Filter

DestinationKind = Literal["queue", "exchange"]


@dataclass(frozen=True, slots=True)
class Binding:
    """One binding. There may be several from one exchange to one destination.

    Two are the same if source, destination, key and arguments are. As in RabbitMQ the order of
    the arguments does not matter, but the types of their values do: an int32 1 is not an int64 1.

    Attributes:
        source: The exchange that messages come from.
        destination: The queue or exchange that they go to.
        destination_kind: Which of the two it is.
        key: The routing key of the binding, on a topic exchange a pattern.
        arguments: The binding's table; never changed after the binding is made.
        filtered: Whether its arguments ask for a filter, which may be one for every message.
    """

    source: str = field(compare=False)
    destination: str = field(compare=False)
    destination_kind: DestinationKind = field(compare=False)
    key: str = field(compare=False)
    arguments: Mapping[str, Value] = field(compare=False)
    filtered: bool = field(init=False, compare=False, repr=False)
    _identity: Hashable = field(init=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        arguments = comparable_table(self.arguments)
        identity = (self.source, self.destination_kind, self.destination, self.key, arguments)
        object.__setattr__(self, "_identity", identity)
        object.__setattr__(self, "_hash", hash(identity))
        asks = any(name in self.arguments for name in FILTER_ARGUMENTS)
        object.__setattr__(self, "filtered", asks)

    def __hash__(self) -> int:
        """Once for all: a message may meet many bindings."""
        return self._hash


class DistinctDestinations:
    """Bindings, of which it gives one for each destination and each of those with a filter.

    A message that meets all of them gains nothing by a second way to the same queue.
    The order is that in which the destinations were bound first.
    """

    __slots__ = ("_given", "_more")

    def __init__(self) -> None:
        self._given: dict[object, Binding] = {}
        self._more: dict[object, ShardedDict[Binding, None]] = {}

    def __iter__(self) -> Iterator[Binding]:
        return iter(self._given.values())

    def __len__(self) -> int:
        return len(self._given)

    def add(self, binding: Binding) -> None:
        """Adds a binding that is not there yet."""
        goal = _goal(binding)
        if self._given.setdefault(goal, binding) is not binding:
            self._more.setdefault(goal, ShardedDict())[binding] = None

    def remove(self, binding: Binding) -> None:
        """Removes a binding that is there."""
        goal = _goal(binding)
        more = self._more.get(goal)
        if self._given[goal] != binding:
            assert more is not None
            del more[binding]
        elif more is not None:
            self._given[goal] = more.popitem()[0]
        else:
            del self._given[goal]
        if more is not None and not more:
            del self._more[goal]


def _goal(binding: Binding) -> object:
    return binding if binding.filtered else (binding.destination_kind, binding.destination)


class Router(ABC):
    """The bindings of one exchange, arranged for its type.

    Attributes:
        description: What the type is, for who chooses one; the AMQP types' as RabbitMQ has it.
        per_message: Whether more than the routing keys matters: the message's properties, or
            chance. Then no route may be cached.
        takes_patterns: Whether binding keys are patterns and not plain keys.
        ignores_keys: Whether routing keys matter to nobody, unless with `strict_keys`.
        looks_up: Whether it finds the bindings that a message meets without a look at all of them
            only if its properties are known.
        keys_a_step: How many routing keys of a message are gone through in one step. 0: a message
            may meet something else than messages with one of its keys each.
        strict_keys: Whether the exchange was declared with `x-strict-keys`.
        history_length: How many messages the exchange keeps for those who are bound later.
        cache_size: How many messages it remembers, to take none of them twice.
    """

    description: ClassVar[str]
    per_message: bool = False
    history_length: int = 0
    cache_size: int = 0
    takes_patterns: ClassVar[bool] = False
    ignores_keys: ClassVar[bool] = False
    looks_up: ClassVar[bool] = False
    keys_a_step: ClassVar[int] = 0

    def __init__(self, *, strict_keys: bool = False) -> None:
        self.strict_keys = strict_keys

    @classmethod
    def declared(
        cls, arguments: Mapping[str, Value], *, strict_keys: bool, chance: Callable[[], int]
    ) -> Self:
        """Makes the router of an exchange that is declared with these arguments.

        Args:
            arguments: The exchange's table.
            strict_keys: What it says of `x-strict-keys`.
            chance: Gives a number of 64 bits that is another one each time.

        Raises:
            PreconditionFailed: An argument that this type reads is invalid.
        """
        return cls(strict_keys=strict_keys)

    def validate(self, key: str, arguments: Mapping[str, Value]) -> None:
        """Checks what somebody wants to bind with.

        Raises:
            PreconditionFailed: This exchange takes no such binding.
        """
        if self.strict_keys:
            check_pattern(key) if self.takes_patterns else check_plain_key(key)

    def check_published(self, key: str) -> None:
        """Checks the routing key of a message that is published to this exchange.

        Raises:
            PreconditionFailed: This exchange takes no such key.
        """
        if self.strict_keys:
            check_plain_key(key)

    @abstractmethod
    def add(self, binding: Binding) -> None:
        """Adds a binding that is not there yet."""

    @abstractmethod
    def remove(self, binding: Binding) -> None:
        """Removes a binding that is there."""

    @abstractmethod
    def match(self, message: RoutedMessage) -> Iterable[Binding]:
        """Returns the bindings that a message meets, each once, to be used before any change.

        Of those without a filter to one destination, it may return one.
        """

    def matching(self, message: RoutedMessage) -> StepsTo[Iterable[Binding]]:
        """The same, in steps; bindings may come and go in between, and are met or not."""
        keys, some = message.keys, self.keys_a_step
        if not some or len(keys) <= some:
            return self.match(message)
        met: dict[Binding, None] = {}
        for at in range(0, len(keys), some):
            met.update(dict.fromkeys(self.match(RoutedMessage(keys[at : at + some]))))
            yield None
        return met

    def met_by(self, key: str) -> list[Binding] | None:
        """Returns the bindings that every message with this one key meets, as `match` would.

        None: it takes longer than some microseconds to find them, or depends on more than the key.
        """
        return None

    def spread_keys(self) -> Sequence[str]:
        """Returns keys, one for each partition, for messages that have no key of their own.

        Empty if such a message is met by the empty key, as on all exchanges without partitions.
        """
        return ()

    def keeps(self, message: RoutedMessage) -> bool:
        """Whether the exchange keeps or remembers a message; only asked if it does with some."""
        return True

    def condition(self, binding: Binding) -> Filter | None:
        """Returns what this type asks of messages that meet a binding it has, beside their keys.

        None: nothing. `match` returns the binding for messages whose properties are not known.
        """
        return None

    def only_key(self, key: str) -> str | None:
        """Returns the one routing key that a binding with `key` can matter to; None if several."""
        return None

    def keys_of(self, binding: Binding) -> Callable[[str], bool] | None:
        """Returns what says which keys' messages meet a binding; None if more than keys matters."""
        return None
