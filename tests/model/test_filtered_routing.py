"""Bindings with filters against a model that asks each of them, whatever the topology is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.broker.exchange.test_routing import Filtering, encoded

from leporid.amqp.tables import Value

pytestmark = pytest.mark.slow

Headers = dict[str, Value]

# Filters, and what they mean.
FILTERS: dict[str, tuple[dict[str, Value], Callable[[str, Headers], bool]]] = {
    "none": ({}, lambda _exchange, _headers: True),
    "tag": ({"tags": "a || b"}, lambda _exchange, headers: headers.get("x-tag") in ("a", "b")),
    "other tag": ({"tags": "c"}, lambda _exchange, headers: headers.get("x-tag") == "c"),
    "equal": ({"sql": "n = 1"}, lambda _exchange, headers: headers.get("n") == 1),
    "range": (
        {"sql": "n > 0"},
        lambda _exchange, headers: isinstance(n := headers.get("n"), int) and n > 0,
    ),
    "both": (
        {"tags": "a", "sql": "n = 2 OR n IS NULL"},
        lambda _exchange, headers: headers.get("x-tag") == "a" and headers.get("n", 2) == 2,
    ),
    "name": ({"sql": "exchange = 'u'"}, lambda exchange, _headers: exchange == "u"),
    "one": ({"n": 1}, lambda _exchange, _headers: True),
    "one or tag": (
        {"n": 1, "x_tag": "a", "x_match": "any-with-x"},
        lambda _exchange, _headers: True,
    ),
    "there": ({"n": None, "tags": "a"}, lambda _exchange, headers: headers.get("x-tag") == "a"),
}

# What some of them are besides, on headers exchanges.
TERMS: dict[str, Callable[[Headers], bool]] = {
    "one": lambda headers: headers.get("n") == 1,
    "one or tag": lambda headers: headers.get("n") == 1 or headers.get("x-tag") == "a",
    "there": lambda headers: "n" in headers,
}

# Name, type, alternate exchange.
EXCHANGES = (
    ("u", "fanout", None),
    ("v", "direct", "u"),
    ("w", "topic", "missing"),
    ("x", "headers", "v"),
    ("h", "headers", None),
    ("y", "direct", None),
    ("z", "topic", None),
)
NAMES = st.sampled_from([name for name, _, _ in EXCHANGES])
QUEUES = st.sampled_from("abc")
KEYS = st.sampled_from(["k", "l", "#"])
# Most keys are never repeated, and meet the same bindings as others.
PUBLISHED_KEYS = KEYS | st.integers(0, 99).map("m{}".format)
KINDS = st.sampled_from(list(FILTERS))
HEADERS: st.SearchStrategy[Headers] = st.fixed_dictionaries(
    {},
    optional={
        "x-tag": st.sampled_from(["a", "b", "c", 5]),
        "n": st.sampled_from([0, 1, 2, "text"]),
    },
)


class Machine(RuleBasedStateMachine):
    """Binds, unbinds and publishes; the model is a list of bindings."""

    def __init__(self) -> None:
        super().__init__()
        self.here = Filtering()
        self.bindings: dict[tuple[str, str, str, str], None] = {}
        for queue in "abc":
            self.here.queue(queue)
        for name, kind, alternate in EXCHANGES:
            more: Headers = {} if alternate is None else {"alternate_exchange": alternate}
            self.here.exchange(name, kind, **more)

    @rule(source=NAMES, destination=QUEUES | NAMES, key=KEYS, kind=KINDS)
    def bind(self, source: str, destination: str, key: str, kind: str) -> None:
        self.here.filtered(source, destination, key, **FILTERS[kind][0])
        self.bindings[source, destination, key, kind] = None

    @rule(data=st.data())
    def unbind(self, data: st.DataObject) -> None:
        if self.bindings:
            one = data.draw(st.sampled_from(list(self.bindings)))
            source, destination, key, kind = one
            self.here.unbind(source, destination, key, **FILTERS[kind][0])
            del self.bindings[one]

    @rule(queue=QUEUES)
    def delete(self, queue: str) -> None:
        self.here.vhost.delete_queue(self.here.vhost.queue(queue))
        self.here.queue(queue)
        self.bindings = {one: None for one in self.bindings if one[1] != queue}

    @rule(exchange=NAMES, key=PUBLISHED_KEYS, headers=HEADERS)
    def publish(self, exchange: str, key: str, headers: Headers) -> None:
        assert self.here.goes(exchange, encoded(headers), key) == self.expected(
            exchange, key, headers
        )

    def expected(self, published_to: str, key: str, headers: Headers) -> str:
        types = {name: (kind, alternate) for name, kind, alternate in EXCHANGES}
        found, visited, pending = set(), {published_to}, [published_to]
        while pending:
            exchange = pending.pop()
            kind, alternate = types[exchange]
            below = {
                destination
                for source, destination, bound, wanted in self.bindings
                if source == exchange
                and (bound in (key, "#") or kind in ("fanout", "headers"))
                and (bound == key or kind != "direct")
                and FILTERS[wanted][1](published_to, headers)
                and (kind != "headers" or wanted not in TERMS or TERMS[wanted](headers))
            }
            if not below and alternate is not None:
                below = {alternate}
            found |= below & set("abc")
            pending += [each for each in below if each in types and each not in visited]
            visited |= below
        return "".join(sorted(found))

    @invariant()
    def nothing_is_left(self) -> None:
        assert not self.here.peer.session.defects


TestFilteredRouting = Machine.TestCase
TestFilteredRouting.settings = settings(max_examples=150, stateful_step_count=40)
