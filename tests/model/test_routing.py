"""Routing against models that are too simple to be wrong, and caches against no cache at all."""

from collections.abc import Mapping
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.broker.engine_fake import as_engine
from tests.broker.exchange.types.bindings import message
from tests.broker.fake_route_cache import FakeRouteCache

from leporid.amqp.tables import Value
from leporid.broker.exchange.exchange import ExchangeState
from leporid.broker.exchange.topology import Topology
from leporid.broker.exchange.types import Binding, RoutedMessage, Router, make_router
from leporid.broker.exchange.types.phash2 import phash2_of_binaries
from leporid.broker.exchange.types.super_stream import partition_of
from leporid.broker.registry import finished

pytestmark = pytest.mark.slow

# ------------------------------------------------------------------ the models


def topic_model(pattern: list[str], words: list[str]) -> bool:
    """Backtracks, which is slow and plain."""
    if not pattern:
        return not words
    first, rest = pattern[0], pattern[1:]
    if first == "#":
        return any(topic_model(rest, words[passed:]) for passed in range(len(words) + 1))
    return bool(words) and first in ("*", words[0]) and topic_model(rest, words[1:])


def words_of(key: str) -> list[str]:
    return key.split(".") if key else []


def headers_model(arguments: Mapping[str, Value], headers: Mapping[str, Value]) -> bool:
    """For values that Python compares as RabbitMQ does."""
    mode = str(arguments.get("x-match", "all"))
    met = []
    for name, wanted in arguments.items():
        if name in ("x-match", "x-filter-sql"):
            continue
        if name.startswith("x-") and not mode.endswith("-with-x"):
            continue
        met.append(name in headers and (wanted is None or headers[name] == wanted))
    return any(met) if mode.startswith("any") else all(met)


def met_model(exchange_type: str, binding: Binding, key: str, headers: Mapping[str, Value]) -> bool:
    match exchange_type:
        case "fanout":
            return True
        case "direct":
            return binding.key == key
        case "topic":
            return topic_model(words_of(binding.key), words_of(key))
        case _:
            return headers_model(binding.arguments, headers)


# ------------------------------------------------------------------ one exchange

# The types of the protocol. Those that hash or draw have tests of their own.
MODELLED = ["direct", "fanout", "headers", "topic"]
WORDS = st.sampled_from(["a", "b", "", "*", "#"])
KEYS = st.lists(WORDS, max_size=6).map(".".join)
HEADERS: st.SearchStrategy[dict[str, Value]] = st.dictionaries(
    st.sampled_from(["a", "b", "x-c"]), st.sampled_from([None, "v", 1]), max_size=3
)
ARGUMENTS = st.builds(
    lambda terms, mode, wanted: terms | mode | wanted,
    HEADERS,
    st.sampled_from(
        [{}, *({"x-match": mode} for mode in ("all", "any", "all-with-x", "any-with-x"))]
    ),
    st.sampled_from([{}, {}, {"x-filter-sql": "a = 1"}]),
)
BINDINGS = st.builds(
    Binding, st.just("x"), st.sampled_from("qrs"), st.just("queue"), KEYS, ARGUMENTS
)


@settings(max_examples=300)
@given(
    exchange_type=st.sampled_from(MODELLED),
    added=st.lists(BINDINGS, unique=True, max_size=12),
    removed=st.lists(st.integers(0, 11), unique=True),
    messages=st.lists(st.tuples(KEYS, HEADERS), min_size=1, max_size=6),
)
def test_a_router_meets_what_the_model_meets(
    exchange_type: str,
    added: list[Binding],
    removed: list[int],
    messages: list[tuple[str, dict[str, Value]]],
) -> None:
    router = make_router(exchange_type, {}, int)
    for binding in added:
        router.add(binding)
    kept = [binding for at, binding in enumerate(added) if at not in removed]
    for at in removed:
        if at < len(added):
            router.remove(added[at])
    for key, headers in messages:
        met = list(router.match(message(key, headers=headers)))
        assert len(met) == len(set(met))
        meant = [each for each in kept if met_model(exchange_type, each, key, headers)]
        assert set(met) <= set(meant)
        # One for each destination is enough, but filters have to be asked one by one.
        assert {each.destination for each in met} == {each.destination for each in meant}
        assert {each for each in met if each.filtered} == {each for each in meant if each.filtered}


@settings(max_examples=300)
@given(binding=BINDINGS, key=KEYS, exchange_type=st.sampled_from(MODELLED))
def test_a_binding_meets_no_key_but_its_only_one(
    binding: Binding, key: str, exchange_type: str
) -> None:
    router: Router = make_router(exchange_type, {}, int)
    router.add(binding)
    only = router.only_key(binding.key)
    if only is not None and list(router.match(message(key))):
        assert key == only


# Of one destination or number, the oldest binding counts.
HASHED = st.builds(
    Binding,
    st.just("x"),
    st.sampled_from("qrst"),
    st.just("queue"),
    st.sampled_from(["1", "2", "3"]),
    st.sampled_from([{}, {"a": 1}, {"a": 2}]),
)


def hashed_model(exchange_type: str, bindings: list[Binding], key: str) -> list[Binding]:
    """What a key meets, of bindings in the order in which they were made."""
    if not bindings:
        return []
    if exchange_type == "x-modulus-hash":
        # Sorting keeps the order of those that are equal.
        ordered = sorted(bindings, key=lambda each: each.destination)
        return [ordered[finished(phash2_of_binaries([key.encode()])) % len(ordered)]]
    if exchange_type == "x-super-stream":
        number = str(partition_of(key, len(bindings)))
        return [each for each in bindings if each.key == number][:1]
    # Made anew, it chooses the same.
    router = make_router(exchange_type, {}, int)
    for destination in "qrst":
        for each in [each for each in bindings if each.destination == destination][:1]:
            router.add(each)
    return list(router.match(message(key)))


@settings(max_examples=300)
@given(
    exchange_type=st.sampled_from(["x-modulus-hash", "x-super-stream", "x-consistent-hash"]),
    changes=st.lists(st.tuples(HASHED, st.sampled_from(["a", "b", "c", "d"])), max_size=40),
)
def test_what_hashes_keys_chooses_what_the_model_does_while_bindings_come_and_go(
    exchange_type: str, changes: list[tuple[Binding, str]]
) -> None:
    router = make_router(exchange_type, {}, int)
    there: list[Binding] = []
    for binding, key in changes:
        if binding in there:
            there.remove(binding)
            router.remove(binding)
        else:
            there.append(binding)
            router.add(binding)
        assert list(router.match(message(key))) == hashed_model(exchange_type, there, key)


# ------------------------------------------------------------------ many exchanges

# Few names, keys and headers, so that they meet each other often.
EXCHANGES = ["", "u", "v", "w", "x"]
QUEUES = ["a", "b", "a.b"]
SAMPLE_KEYS = ["a", "b", "a.b"]
SAMPLE_HEADERS: list[dict[str, Value]] = [{}, {"a": 1}]
SAMPLE_BINDING_KEYS = st.sampled_from([*SAMPLE_KEYS, "#", "a.*"])
NAMES = st.sampled_from(EXCHANGES[1:])
TYPES = st.sampled_from(MODELLED)
ALTERNATES = st.sampled_from([None, *EXCHANGES])
SAMPLE_ARGUMENTS = st.sampled_from([{}, {"a": 1}])


class TopologyMachine(RuleBasedStateMachine):
    """Changes a topology at random; the model is a list of bindings and a few dicts.

    Each exchange's cache is asked after every change for messages that it has mostly been asked
    for before, so an answer that should have been forgotten shows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.topology = Topology()
        self.sources: dict[str, FakeRouteCache] = {}
        self.types: dict[str, str] = {}
        self.alternates: dict[str, str | None] = {}
        self.queues: set[str] = set()
        self.bindings: list[Binding] = []
        self.add("", "direct", None)
        for name in QUEUES:
            self.add_or_remove_queue(name)

    @initialize(
        exchanges=st.tuples(*[st.tuples(TYPES, ALTERNATES)] * 4),
        bindings=st.lists(
            st.tuples(NAMES, st.booleans(), NAMES, SAMPLE_BINDING_KEYS, SAMPLE_ARGUMENTS),
            max_size=12,
        ),
    )
    def begin(
        self,
        exchanges: tuple[tuple[str, str | None], ...],
        bindings: list[tuple[str, bool, str, str, dict[str, Value]]],
    ) -> None:
        for name, (exchange_type, alternate) in zip(EXCHANGES[1:], exchanges, strict=True):
            self.add(name, exchange_type, alternate)
        for source, to_queue, destination, key, arguments in bindings:
            if to_queue:
                queue = QUEUES[EXCHANGES.index(destination) % len(QUEUES)]
                self.add_binding(Binding(source, queue, "queue", key, arguments))
            else:
                self.add_binding(Binding(source, destination, "exchange", key, arguments))

    def add(self, name: str, exchange_type: str, alternate: str | None) -> None:
        arguments: dict[str, Value] = {}
        if alternate is not None:
            arguments["alternate-exchange"] = alternate
        source = FakeRouteCache()
        exchange = ExchangeState(
            name, exchange_type, False, False, False, arguments, as_engine(source)
        )
        source.resolve = partial(self.resolve, exchange)
        self.topology.add_exchange(exchange)
        self.sources[name] = source
        self.types[name] = exchange_type
        self.alternates[name] = alternate

    def resolve(
        self, exchange: ExchangeState, key: str, headers: Mapping[str, Value] | None
    ) -> list[str] | None:
        asked = RoutedMessage((key,), None) if headers is None else message(key, headers=headers)
        reached = finished(self.topology.resolving(exchange, asked))
        depends = reached.by_message or reached.filtered or reached.deciding is not None
        return None if depends else reached.queues

    @rule(name=NAMES, exchange_type=TYPES, alternate=ALTERNATES)
    def add_exchange(self, name: str, exchange_type: str, alternate: str | None) -> None:
        if name not in self.types:
            self.add(name, exchange_type, alternate)

    @rule(name=NAMES)
    def remove_exchange(self, name: str) -> None:
        if name not in self.types:
            return
        gone = [
            each
            for each in self.bindings
            if each.source == name
            or (each.destination_kind == "exchange" and each.destination == name)
        ]
        removed = list(self.topology.remove_exchange(name))
        assert len(removed) == len(gone)
        assert set(removed) == set(gone)
        self.bindings = [each for each in self.bindings if each not in gone]
        assert self.sources.pop(name).retired
        del self.types[name], self.alternates[name]

    @rule(name=st.sampled_from(QUEUES))
    def toggle_queue(self, name: str) -> None:
        self.add_or_remove_queue(name)

    def add_or_remove_queue(self, name: str) -> None:
        if name not in self.queues:
            self.queues.add(name)
            self.topology.add_queue(name)
            return
        self.queues.remove(name)
        gone = [
            each
            for each in self.bindings
            if each.destination_kind == "queue" and each.destination == name
        ]
        assert list(self.topology.remove_queue(name)) == gone
        self.bindings = [each for each in self.bindings if each not in gone]

    @precondition(lambda self: len(self.types) > 1)
    @rule(
        data=st.data(),
        key=SAMPLE_BINDING_KEYS,
        arguments=SAMPLE_ARGUMENTS,
        to_queue=st.booleans(),
    )
    def bind(
        self, data: st.DataObject, key: str, arguments: dict[str, Value], to_queue: bool
    ) -> None:
        names = [name for name in self.types if name]
        source = data.draw(st.sampled_from(names))
        if to_queue and self.queues:
            destination = data.draw(st.sampled_from(sorted(self.queues)))
            binding = Binding(source, destination, "queue", key, arguments)
        else:
            destination = data.draw(st.sampled_from(names))
            binding = Binding(source, destination, "exchange", key, arguments)
        self.add_binding(binding)

    def add_binding(self, binding: Binding) -> None:
        assert self.topology.bind(binding) is (binding not in self.bindings)
        if binding not in self.bindings:
            self.bindings.append(binding)

    @precondition(lambda self: self.bindings)
    @rule(data=st.data())
    def unbind(self, data: st.DataObject) -> None:
        binding = data.draw(st.sampled_from(self.bindings))
        assert self.topology.unbind(binding)
        assert not self.topology.unbind(binding)
        self.bindings.remove(binding)

    @invariant()
    def caches_answer_what_the_model_does(self) -> None:
        for name, source in self.sources.items():
            for key in SAMPLE_KEYS:
                for headers in SAMPLE_HEADERS:
                    answer = source.route(key, headers)
                    assert len(answer) == len(set(answer))
                    assert set(answer) == self.routed(name, [key], headers)

    @invariant()
    def several_keys_are_routed_together(self) -> None:
        for name in self.types:
            exchange = self.topology.exchanges[name]
            sample = message(*SAMPLE_KEYS, headers={"a": 1})
            answer = finished(self.topology.resolving(exchange, sample)).queues
            assert set(answer) == self.routed(name, SAMPLE_KEYS, {"a": 1})

    @invariant()
    def routes_depend_on_messages_only_if_a_headers_exchange_is_reached(self) -> None:
        for name, source in self.sources.items():
            assert source.cacheable
            for key, route in source.routes.items():
                assert route is not None or self.reaches_headers(name, key)

    def routed(self, start: str, keys: list[str], headers: Mapping[str, Value]) -> set[str]:
        if start == "":
            return self.queues & set(keys)
        return self.walked(start, keys, headers)[0]

    def reaches_headers(self, start: str, key: str) -> bool:
        if start == "":
            return False
        visited = self.walked(start, [key], {}, beyond_headers=False)[1]
        return any(self.types[each] == "headers" for each in visited)

    def walked(
        self,
        start: str,
        keys: list[str],
        headers: Mapping[str, Value],
        *,
        beyond_headers: bool = True,
    ) -> tuple[set[str], set[str]]:
        """The queues and the exchanges that a message comes to."""
        routed: set[str] = set()
        visited: set[str] = set()
        pending = [start]
        while pending:
            name = pending.pop()
            if name in visited or name not in self.types:
                continue
            visited.add(name)
            if self.types[name] == "headers" and not beyond_headers:
                continue
            met = [
                each
                for each in self.bindings
                if each.source == name
                and any(met_model(self.types[name], each, key, headers) for key in keys)
            ]
            routed |= {each.destination for each in met if each.destination_kind == "queue"}
            pending += [each.destination for each in met if each.destination_kind == "exchange"]
            alternate = self.alternates[name]
            if not met and alternate is not None:
                pending.append(alternate)
        return routed, visited


TestTopology = TopologyMachine.TestCase
TestTopology.settings = settings(max_examples=200, stateful_step_count=40)
