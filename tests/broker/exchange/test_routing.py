"""Bindings with filters, over the real engine: whatever way a message comes, the right queues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pyarrow as pa
import pytest
from tests.broker.exchange.test_delays import Here, delay
from tests.broker.recording import puts
from tests.engine.frames import Delivery, Returned, publish
from tests.engine.slices import cut_often, turns
from tests.management.arrows import batches_in, stream_of

from leporid.amqp.errors import Fault, NotFound, PreconditionFailed
from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value
from leporid.broker.exchange import routing
from leporid.broker.exchange.types import Binding, RoutedMessage
from leporid.broker.registry import finished
from leporid.broker.stored import StoredBinding
from leporid.engine.tables.publisher import Publisher
from leporid.engine.tables.rows import Rows, encode
from leporid.management.tables import HEADERS_TYPE

TAGS, SQL = "x-filter-tags", "x-filter-sql"


def raw(tag: str | None = None, **headers: Value) -> bytes:
    return encoded(headers if tag is None else headers | {"x-tag": tag})


def encoded(headers: dict[str, Value]) -> bytes:
    return encode_properties(Properties(headers=headers))


class Filtering(Here):
    """Short ways to bind with filters, and to see where a message went."""

    def binding(
        self,
        source: str,
        destination: str,
        key: str = "k",
        tags: str | None = None,
        sql: str | None = None,
        **more: Value,
    ) -> Binding:
        arguments: dict[str, Value] = {n.replace("_", "-"): value for n, value in more.items()}
        arguments |= {} if tags is None else {TAGS: tags}
        arguments |= {} if sql is None else {SQL: sql}
        kind: Literal["queue", "exchange"] = "queue"
        if self.vhost.find_exchange(destination) is not None:
            kind = "exchange"
        return Binding(source, destination, kind, key, arguments)

    def filtered(self, source: str, destination: str, key: str = "k", **how: Value) -> None:
        binding = self.binding(source, destination, key, **how)  # type: ignore[arg-type]
        left = self.vhost.bindings.bind(binding, None)
        if left is not None:
            finished(left)

    def unbind(self, source: str, destination: str, key: str = "k", **how: Value) -> None:
        binding = self.binding(source, destination, key, **how)  # type: ignore[arg-type]
        self.vhost.bindings.unbind(binding, None)  # type: ignore[arg-type]

    def queues(self, *names: str) -> None:
        for name in names:
            self.queue(name)

    def goes(self, exchange: str, properties: bytes, key: str = "k") -> str:
        """The queues, of one letter each, that get a message."""
        self.send(exchange, "m", properties, key)
        return self.got()

    def got(self) -> str:
        return "".join(
            queue.name * len(self.came(queue.name))
            for queue in sorted(self.vhost.queues(), key=lambda each: each.name)
        )

    @property
    def counted(self) -> tuple[int, int, int, int]:
        """What the engine counted: questions, those evaluated, matches, type errors."""
        engine = self.engine
        return (
            engine.publishing.filters.asked,
            engine.publishing.filters.evaluated,
            engine.publishing.filters.matched,
            engine.publishing.filters.type_errors,
        )


@pytest.fixture
def here() -> Iterator[Filtering]:
    found = Filtering()
    yield found
    assert not found.peer.session.defects


@pytest.fixture(params=["direct", "topic", "fanout", "headers"])
def exchange(here, request) -> str:
    """An exchange of each kind; that of the last is asked for every message."""
    here.exchange("x", request.param)
    return "x"


# ------------------------------------------------------------------ without a filter


def test_what_bindings_alone_say_is_followed_by_the_engine(here, monkeypatch):
    def resolving(*asked):
        pytest.fail(f"asked about {asked}")

    monkeypatch.setattr(routing.Routing, "resolving", resolving)
    here.exchange("x", "topic")
    here.queues("a", "b")
    for queue, key in [("a", "#"), ("b", "k.*"), ("b", "*.two")]:
        here.bind("x", queue, key)
    for _ in range(2):
        ways = [here.goes("x", raw(), key) for key in ("k.one", "k.two", "z.two", "z", "")]
        assert ways == ["ab", "ab", "ab", "a", "a"]
        assert [here.goes("", raw(), key) for key in ("a", "b", "c", "")] == ["a", "b", "", ""]
    finished(here.vhost.deleting_queue(here.vhost.find_queue("b")))
    assert [here.goes("x", raw(), "k.two"), here.goes("", raw(), "b")] == ["a", ""]
    here.queues("b", "c")
    assert [here.goes("x", raw(), "k.two"), here.goes("x", raw(), "k.new")] == ["a", "a"]
    assert [here.goes("", raw(), key) for key in "abc"] == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["direct", "topic"])
def test_a_filter_and_an_alternate_exchange_have_a_say(here, kind):
    here.exchange("x", kind)
    here.queues("a", "b", "c")
    here.bind("x", "a", "k")
    here.filtered("x", "b", "k", sql="n = 1")
    assert [here.goes("x", raw(n=n)) for n in (1, 2, 1)] == ["ab", "a", "ab"]
    assert here.goes("x", raw(), "other") == ""
    here.unbind("x", "b", "k", sql="n = 1")
    assert [here.goes("x", raw(n=1)), here.goes("x", raw(), "new")] == ["a", ""]
    here.exchange("y", kind, **{"alternate-exchange": "all"})
    here.bind("y", "a", "k")
    assert [here.goes("y", raw()), here.goes("y", raw(), "other")] == ["a", ""]
    here.exchange("all", "fanout")
    here.bind("all", "c", "")
    assert [here.goes("y", raw()), here.goes("y", raw(), "other")] == ["a", "c"]


# ------------------------------------------------------------------ one exchange


def test_a_queue_gets_what_passes(here, exchange):
    here.queues("a", "b", "c")
    here.filtered("x", "a", tags="late || lost")
    here.filtered("x", "b", sql="n > 5")
    here.filtered("x", "c")
    assert here.goes("x", raw("late", n=6)) == "abc"
    assert here.goes("x", raw("late", n=5)) == "ac"
    assert here.goes("x", raw("early", n=6)) == "bc"
    assert here.goes("x", raw()) == "c"
    assert here.goes("x", b"\0\0") == "c"


class Asking:
    """A topology that notes which keys it is asked about."""

    def __init__(self, topology):
        self._topology = topology
        self.keys: list[str] = []

    def __getattr__(self, name):
        return getattr(self._topology, name)

    def resolving(self, exchange, message):
        self.keys += message.keys
        return self._topology.resolving(exchange, message)


@pytest.mark.parametrize("kind", ["fanout", "headers"])
def test_a_route_for_all_keys_is_found_once_unless_keys_matter_below(here, kind):
    here.exchange("x", kind)
    here.exchange("y", "direct")
    here.queues("a", "b")
    here.bind("x", "a", "any")
    here.filtered("x", "b", sql="routing_key = 'two'")
    asking = here.vhost.routing._topology = Asking(here.vhost.routing._topology)
    assert [here.goes("x", raw(), key) for key in ("one", "two", "", "ü")] == ["a", "ab", "a", "a"]
    assert asking.keys == ["one"]
    here.filtered("x", "y")
    here.bind("y", "b", "one")
    assert [here.goes("x", raw(), key) for key in ("one", "two", "three")] == ["ab", "ab", "a"]
    here.unbind("x", "y")
    del asking.keys[:]
    assert [here.goes("x", raw(), key) for key in ("one", "two", "three")] == ["a", "ab", "a"]
    assert asking.keys == ["one"]


def test_an_array_that_a_binding_waits_for_beside_its_filter(here):
    here.exchange("x", "headers")
    here.queues("a", "b")
    here.filtered("x", "a", n=1)
    assert here.goes("x", raw(n=1, m=1)) == "a"
    here.filtered("x", "b", z=[1], sql="m = 1")
    assert here.goes("x", raw(n=1, m=1)) == "a"
    assert here.goes("x", raw(n=1, m=1, z=[1])) == "ab"
    here.unbind("x", "b", z=[1], sql="m = 1")
    assert here.goes("x", raw(n=1, m=1, z=[1])) == "a"


@pytest.mark.parametrize("above", ["", "y"])
@pytest.mark.parametrize("value", [5, [5]])
def test_many_bindings_of_a_headers_exchange_whose_keys_matter_elsewhere(here, above, value):
    """Else each message with a key of its own would cost a look at all of them."""
    here.exchange("z", "fanout")
    here.exchange("y", "topic")
    here.exchange("x", "headers", alternate_exchange="missing" if above else "z")
    here.filtered("y", "x", "#")
    here.queues("a", "b", "c")
    here.bind("z", "c")
    for number in range(200):
        here.filtered("x", "a", n=number if number != 5 else value)
    here.filtered("x", "b", n=7)
    published_to = above or "x"
    for key in ("one", "two", "three"):
        assert here.goes(published_to, encoded({"n": 7}), key) == "ab"
        assert here.goes(published_to, encoded({"n": value}), key) == "a"
        assert here.goes(published_to, encoded({"n": "none"}), key) == ("" if above else "c")
    for number in range(200):
        if number != 5:
            here.unbind("x", "a", n=number)
    for key in ("one", "four"):
        assert here.goes(published_to, encoded({"n": 7}), key) == "b"
        assert here.goes(published_to, encoded({"n": value}), key) == "a"


@pytest.mark.parametrize("kind", ["fanout", "headers"])
def test_a_key_that_is_no_text_is_refused_by_who_does_not_look_at_keys(here, kind):
    here.exchange("x", kind)
    here.queues("a")
    here.bind("x", "a")
    assert here.goes("x", raw(), "k") == "a"
    here.peer.feed(publish(1, b"\xff", exchange="x"))
    assert here.peer.faults == [(1, 406)]
    assert here.got() == ""


@pytest.mark.parametrize("kind", ["fanout", "headers", "topic"])
@pytest.mark.parametrize("how", [{"sql": "n = 1"}, {"n": 1}])
def test_a_route_of_one_exchange_is_not_that_of_another_one(here, kind, how):
    here.exchange("e", "headers")
    here.exchange("top", kind)
    here.exchange("alt", "headers")
    here.exchange("x", "headers", alternate_exchange="alt")
    here.queues("a", "b")
    here.filtered("top", "e", "#")
    here.filtered("e", "a", **how)
    here.filtered("alt", "a", **how)
    for exchange in ("e", "top", "x", "alt"):
        assert here.goes(exchange, raw(n=1)) == "a"
    # Filters that come to one of them are no other's.
    here.filtered("top", "b", "#", sql="n > 0")
    here.filtered("x", "b", sql="n > 0")
    assert [here.goes(each, raw(n=1)) for each in ("e", "top", "x", "alt")] == ["a", "ab", "b", "a"]
    here.unbind("x", "b", sql="n > 0")
    here.unbind("top", "b", "#", sql="n > 0")
    assert [here.goes(each, raw(n=1)) for each in ("e", "top", "x", "alt")] == ["a"] * 4


def test_more_filters_than_a_route_keeps(here, monkeypatch):
    monkeypatch.setattr(routing, "ROUTE_MEMBERS_MAX", 10)
    here.exchange("z", "fanout")
    here.exchange("x", "headers")
    here.exchange("y", "headers", alternate_exchange="z")
    here.queues("a", "b", "c")
    here.bind("z", "c")
    for exchange in "xy":
        for number in range(20):
            here.filtered(exchange, "a", n=number)
    asking = here.vhost.routing._topology = Asking(here.vhost.routing._topology)
    for _ in range(3):
        assert [here.goes(each, raw(n=7), "k") for each in "xy"] == ["a", "a"]
        assert [here.goes(each, raw(n="no"), "k") for each in "xy"] == ["", "c"]
    assert asking.keys.count("k") >= 12
    for exchange in "xy":
        for number in range(15):
            here.unbind(exchange, "a", n=number)
    assert [here.goes(each, raw(n=17), "k") for each in "xy"] == ["a", "a"]
    assert [here.goes(each, raw(n=7), "k") for each in "xy"] == ["", "c"]


def rows_without_keys(exchange: str, count: int) -> Rows:
    """Rows as they come over HTTP; each has a header `good`."""
    batch = pa.record_batch(
        {
            "body": pa.array(map(str, range(count))),
            "headers": pa.array([[("good", "x")]] * count, HEADERS_TYPE),
        }
    )
    ((found, parts),) = batches_in(stream_of(batch))
    return encode(found, parts, exchange=exchange.encode(), body_bytes_max=1000)


@pytest.mark.parametrize("below", ["queues", "random exchanges", "filters and an alternate"])
def test_rows_without_a_key_are_spread_and_no_later_message_goes_elsewhere(here, below):
    here.exchange("z", "fanout")
    here.exchange("x", "x-super-stream", alternate_exchange="z")
    here.queues("a", "b", "c")
    for number, queue in enumerate("abc"):
        if below == "random exchanges":
            here.exchange(f"to {queue}", "x-random")
            here.bind(f"to {queue}", queue)
        goal = f"to {queue}" if below == "random exchanges" else queue
        sql = "good = 'x'" if below == "filters and an alternate" else None
        here.filtered("x", goal, str(number), sql=sql)
    routes = here.vhost.exchange("x").routes
    Publisher(here.engine.publishing, lambda _name: routes).publish(
        rows_without_keys("x", 9), 0, 100
    )
    assert here.got() == "aaabbbccc"
    router = here.vhost.exchange("x").router
    for key in router.spread_keys():
        (met,) = router.match(RoutedMessage((key,)))
        assert here.goes("x", raw(good="x"), key) == met.destination.removeprefix("to ")


def test_what_is_given_together_must_hold_together(here, exchange):
    here.queues("a")
    here.filtered("x", "a", tags="late", sql="n > 5", x_filter_dialect="rocketmq")
    assert here.goes("x", raw("late", n="6")) == "a"
    assert here.goes("x", raw("late", n="5")) == ""
    assert here.goes("x", raw("early", n="6")) == ""


def test_a_queue_that_is_bound_twice_gets_a_message_once(here, exchange):
    here.queues("a", "b")
    here.filtered("x", "a", sql="n > 5")
    here.filtered("x", "a", sql="n < 10")
    here.filtered("x", "b", sql="n > 5")
    assert here.goes("x", raw(n=7)) == "ab"
    assert here.goes("x", raw(n=3)) == "a"
    assert here.goes("x", raw(n=12)) == "ab"
    # Without a filter, the others do not matter any more.
    here.filtered("x", "a")
    assert here.goes("x", raw(n="text")) == "a"
    here.unbind("x", "a")
    assert here.goes("x", raw(n="text")) == ""


def test_unbinding_takes_the_same_arguments(here, exchange):
    here.queues("a")
    here.filtered("x", "a", sql="n > 5")
    here.unbind("x", "a", sql="n > 6")
    here.unbind("x", "a")
    assert here.goes("x", raw(n=7)) == "a"
    here.unbind("x", "a", sql="n > 5")
    assert here.goes("x", raw(n=7)) == ""
    here.filtered("x", "a", sql="n > 5")
    here.filtered("x", "a", sql="n > 5")
    assert here.goes("x", raw(n=7)) == "a"


def test_all_tags_are_no_filter(here, exchange):
    here.queues("a")
    here.filtered("x", "a", tags="*")
    assert here.goes("x", raw()) == "a"
    assert here.counted[0] == 0


def test_names_and_properties(here):
    here.exchange("x", "topic")
    here.queues("a", "b", "c")
    here.filtered("x", "a", "#", sql="routing_key LIKE 'flights.%' AND exchange = 'x'")
    here.filtered("x", "b", "#", sql="p.type = 't' OR p.priority > 5")
    here.filtered("x", "c", "flights.*", sql="JMSDeliveryMode = 'PERSISTENT'")
    properties = encode_properties(Properties(type="t", delivery_mode=2))
    assert here.goes("x", properties, "flights.jfk") == "abc"
    assert here.goes("x", properties, "trains.jfk") == "b"
    assert here.goes("x", encode_properties(Properties(priority=6)), "flights.a") == "ab"


def test_each_key_has_its_filters(here):
    here.exchange("x", "direct")
    here.queues("a", "b")
    here.filtered("x", "a", "one", sql="n = 1")
    here.filtered("x", "b", "two", sql="n = 1")
    for _ in range(3):
        assert here.goes("x", raw(n=1), "one") == "a"
        assert here.goes("x", raw(n=1), "two") == "b"
        assert here.goes("x", raw(n=2), "two") == ""
        assert here.goes("x", raw(n=1), "three") == ""


def test_a_queue_that_is_deleted_is_gone_from_its_filters(here, exchange):
    here.queues("a", "b")
    for name in "ab":
        here.filtered("x", name, sql="n = 1")
    assert here.goes("x", raw(n=1)) == "ab"
    here.vhost.delete_queue(here.vhost.queue("a"))
    assert here.goes("x", raw(n=1)) == "b"


def test_a_queue_that_becomes_another_to_publishers(here, exchange):
    """A limit that comes later holds for routes with filters, too."""
    here.queues("a")
    here.filtered("x", "a", sql="n = 1")
    here.send("x", "m", raw(n=1))
    engine = here.vhost.queue("a").engine
    engine.set_limits(max_length=1, max_bytes=None, overflow="reject-publish")
    here.vhost.forget_routes_to(here.vhost.queue("a"))
    here.peer.channel.select_confirm()
    here.send("x", "m", raw(n=1))
    assert engine.ready_count == 1


# ------------------------------------------------------------------ several exchanges


def test_a_filter_between_exchanges(here, exchange):
    here.exchange("below", "fanout")
    here.queues("a", "b")
    here.filtered("x", "below", sql="n > 5")
    here.filtered("below", "a")
    here.filtered("below", "b", sql="m = 1")
    assert here.goes("x", raw(n=6, m=1)) == "ab"
    assert here.goes("x", raw(n=6)) == "a"
    assert here.goes("x", raw(n=5, m=1)) == ""
    here.unbind("x", "below", sql="n > 5")
    here.filtered("x", "below")
    assert here.goes("x", raw(n=5, m=1)) == "ab"


def test_a_filter_below(here, exchange):
    here.exchange("middle", "fanout")
    here.exchange("below", "direct")
    here.queues("a", "b")
    here.filtered("x", "middle")
    here.filtered("middle", "below")
    here.filtered("below", "a", sql="n > 5")
    here.filtered("middle", "b", sql="n < 10 AND exchange = 'x'")
    assert here.goes("x", raw(n=6)) == "ab"
    assert here.goes("x", raw(n=16)) == "a"
    assert here.goes("x", raw(n=1)) == "b"
    assert here.goes("middle", raw(n=6)) == "a"


def test_a_message_that_passes_no_filter_goes_to_the_alternate_exchange(here):
    here.exchange("other", "fanout")
    here.queues("a", "o")
    here.filtered("other", "o")
    here.exchange("x", "direct", alternate_exchange="other")
    here.filtered("x", "a", sql="n > 5")
    assert here.goes("x", raw(n=6)) == "a"
    assert here.goes("x", raw(n=5)) == "o"
    assert here.goes("x", raw(n=6), "elsewhere") == "o"
    here.filtered("x", "a", sql="n < 3")
    assert here.goes("x", raw(n=2)) == "a"
    here.unbind("x", "a", sql="n < 3")
    here.unbind("x", "a", sql="n > 5")
    assert here.goes("x", raw(n=6)) == "o"


def test_the_alternate_exchange_may_have_filters(here):
    here.exchange("other", "fanout")
    here.exchange("above", "fanout")
    here.queues("a", "o", "p")
    here.filtered("other", "o", sql="m = 1")
    here.exchange("x", "direct", alternate_exchange="other")
    here.filtered("above", "x")
    here.filtered("above", "p", sql="m = 1")
    here.filtered("x", "a", "nothing")
    assert here.goes("x", raw(m=1)) == "o"
    assert here.goes("x", raw(m=2)) == ""
    assert here.goes("above", raw(m=1)) == "op"


def test_caches_know_where_messages_go_that_pass_the_same_filters(here):
    """Though filters decide about whole exchanges, here and further down."""
    here.exchange("x", "direct", alternate_exchange="amq.fanout")
    here.exchange("above", "fanout")
    here.queues("a", "b", "c")
    here.bind("amq.fanout", "c")
    here.bind("amq.direct", "b")
    here.filtered("above", "x")

    def both(tag: str, n: int) -> str:
        return " ".join(here.goes(name, raw(tag, n=n)) for name in ("x", "above"))

    for _ in range(2):
        here.filtered("x", "a", tags="t")
        here.filtered("x", "amq.direct", sql="n = 1")
        counted = here.counted
        for _ in range(3):
            assert [both("t", 1), both("t", 2), both("u", 1), both("u", 2)] == [
                "ab ab",
                "a a",
                "b b",
                "c c",
            ]
        assert here.counted[0] - counted[0] == 3 * 16
        here.unbind("x", "amq.direct", sql="n = 1")
        assert [both("t", 1), both("u", 1)] == ["a a", "c c"]
        here.filtered("x", "b", tags="u")
        assert [both("t", 1), both("u", 1), both("v", 1)] == ["a a", "b b", "c c"]
        here.vhost.delete_queue(here.vhost.queue("b"))
        assert both("u", 1) == "c c"
        here.queues("b")
        here.bind("amq.direct", "b")
        here.unbind("x", "a", tags="t")
        assert both("t", 1) == "c c"


# ------------------------------------------------------------------ ways of a message


def test_copies(here):
    here.exchange("x", "direct")
    here.queues("a", "b", "c")
    here.filtered("x", "a", "one", sql="n = 1")
    here.filtered("x", "b", "two", sql="n = 1 AND routing_key = 'one'")
    here.filtered("x", "c", "three", sql="n = 2")
    assert here.goes("x", raw(n=1, CC=["two", "three"]), "one") == "ab"
    assert here.goes("x", raw(n=2, BCC=["two", "three"]), "one") == "c"


def test_mandatory(here, exchange):
    here.queues("a")
    here.filtered("x", "a", sql="n = 1")
    for n in (1, 2):
        body = b"%d" % n
        here.peer.feed(publish(1, "k", body, raw=raw(n=n), exchange="x", mandatory=True))
    (event,) = [each for each in here.peer.events() if isinstance(each, Returned)]
    assert event.body == b"2"
    assert here.came("a") == ["1"]
    assert here.engine.queues.unroutable == 1


def test_transactions(here, exchange):
    here.queues("a", "b")
    here.filtered("x", "a", sql="n = 1")
    here.filtered("x", "b", sql="n > 0")
    here.peer.channel.select_tx()
    for n in (0, 1, 2):
        here.send("x", str(n), raw(n=n))
    assert here.got() == ""
    here.peer.channel.commit()
    assert (here.came("a"), here.came("b")) == (["1"], ["1", "2"])


def test_dead_letters(here, exchange):
    here.queues("a", "b")
    here.queue("q", x_dead_letter_exchange="x", x_message_ttl=10, x_dead_letter_routing_key="k")
    here.filtered("x", "a", sql="n = 1")
    here.filtered("x", "b", sql="\"x-first-death-queue\" = 'q' AND exchange = 'x'")
    for n in (1, 2):
        here.peer.feed(publish(1, "q", b"%d" % n, raw=raw(n=n)))
    here.sleep(20)
    assert (here.came("a"), here.came("b")) == (["1"], ["1", "2"])


def test_the_way_of_a_dead_letter_is_found_in_several_turns(here):
    """With 2,000 filters of a large header it took a quarter of a second in one go."""
    here.queues("a")
    here.exchange("x", "topic")
    here.filtered("x", "a", "#.399")
    here.queue("q", x_dead_letter_exchange="x", x_message_ttl=0)
    cut_often(here.engine)
    copies: list[Value] = [f"k.{number}" for number in range(400)]
    here.engine.publish([here.vhost.find_queue("q").engine], "", "q", raw(CC=copies), b"m")
    took = sum(1 for _ in turns(here.engine))
    assert took > 5
    assert here.came("a") == ["m"]


@pytest.mark.parametrize("kind", ["direct", "headers"])
def test_delayed_messages(here, kind):
    here.delayed("d", kind)
    here.exchange("above", "fanout")
    here.queues("a", "b", "c")
    here.filtered("above", "d")
    here.filtered("d", "a", sql="\"x-delay\" < 0 AND exchange = 'd'")
    here.filtered("d", "b", sql='"x-delay" > 0')
    here.filtered("d", "c", sql="exchange = 'above'")
    here.send("d", "m", delay(50))
    here.send("above", "n", delay(50))
    assert here.got() == ""
    here.sleep(51)
    assert (here.came("a"), here.came("b"), here.came("c")) == (["m"], [], ["n"])


def test_what_the_broker_publishes_itself(here, exchange):
    here.queues("a")
    here.filtered("x", "a", sql="n = 1")
    x = here.vhost.exchange("x")
    assert [each.name for each in finished(here.vhost.routing.routing(x, ["k"], raw(n=1)))] == ["a"]
    assert finished(here.vhost.routing.routing(x, ["k"], raw(n=2))) == []
    assert finished(here.vhost.routing.routing(x, ["k"], b"\0\0")) == []


def test_a_history_is_given_to_those_who_are_bound_later_as_far_as_it_passes(here):
    here.exchange("recent", "x-recent-history", x_recent_history_length=5)
    here.exchange("below", "fanout")
    here.queues("a", "b")
    here.filtered("below", "b", "", sql="n < 3 AND exchange = 'recent'")
    for n in range(5):
        here.send("recent", str(n), raw(n=n))
    here.filtered("recent", "a", "", sql="n > 2")
    assert here.came("a") == ["3", "4"]
    here.filtered("recent", "below", "", sql="n > 1")
    assert here.came("b") == ["2"]
    # What passes nobody is kept all the same.
    here.send("recent", "5", raw(n=-1))
    here.filtered("recent", "a", "again")
    assert here.came("a")[-1] == "5"


def test_streams(here, exchange):
    here.queue("s", x_queue_type="stream")
    here.queues("a")
    here.filtered("x", "s", sql="n > 1")
    here.filtered("x", "a")
    for n in range(4):
        here.send("x", str(n), raw(n=n))
    stream = here.vhost.queue("s").stream
    assert stream is not None
    assert stream.next_offset == 2
    assert here.got() == "aaaa"


# ------------------------------------------------------------------ what is wrong


@pytest.mark.parametrize(
    ("arguments", "fault", "text"),
    [
        ({SQL: "n >"}, PreconditionFailed, "invalid arg 'x-filter-sql': character 4: "),
        ({TAGS: "a || *"}, PreconditionFailed, "invalid arg 'x-filter-tags': character 6: "),
        ({"x-filter-class": "c"}, NotFound, "no filter class 'c' is registered"),
    ],
)
def test_a_bad_filter_is_refused_and_nothing_is_bound(
    here, exchange, arguments: dict[str, Value], fault: type[Fault], text: str
):
    here.queues("a")
    for destination in ("a", "amq.fanout"):
        binding = here.binding(
            "x", destination, **{n.replace("-", "_"): v for n, v in arguments.items()}
        )
        with pytest.raises(fault, match="_") as raised:
            here.vhost.bindings.bind(binding, None)
        assert text in raised.value.text
    assert not here.vhost.exchange("x").outgoing
    assert here.goes("x", raw("a", n=1)) == ""
    assert not puts(here.changes, StoredBinding)


def test_a_headers_exchange_does_not_wait_for_what_asks_for_a_filter(here):
    here.exchange("x", "headers")
    here.queues("a")
    here.filtered("x", "a", sql="n > 1", x_match="all-with-x", x_kind="k")
    assert here.goes("x", encoded({"x-kind": "k", "n": 2})) == "a"
    assert here.goes("x", encoded({"x-kind": "k", "n": 1})) == ""
    assert here.goes("x", raw(n=2)) == ""


# ------------------------------------------------------------------ kept, and counted


def test_a_binding_that_is_restored_has_its_filter(here, exchange):
    here.queues("a")
    binding = here.binding("x", "a", tags="t", sql="n > 1")
    assert here.vhost.bindings.restore(binding)
    assert here.goes("x", raw("t", n=2)) == "a"
    assert here.goes("x", raw("t", n=1)) == ""


@pytest.mark.parametrize("kind", ["direct", "headers"])
def test_what_is_asked_is_counted(here, kind):
    here.exchange("x", kind)
    here.queues("a", "b", "c")
    here.filtered("x", "a", sql="n > 5")
    here.filtered("x", "b", sql="n = 7")
    here.filtered("x", "c", tags="t")
    here.goes("x", raw(n=6))
    here.goes("x", raw("t", n="text"))
    asked, evaluated, matched, failed = here.counted
    assert (asked, matched, failed) == (6, 2, 2)
    # A tag or a value answers by itself, where the engine knows the route.
    assert evaluated == 4


def test_a_consumer_sees_what_passed(here, exchange):
    here.queues("a")
    here.filtered("x", "a", sql="n > 1")
    engine = here.vhost.queue("a").engine
    here.peer.channel.consume(engine, "c", True, 0, 0)
    for n in range(4):
        here.send("x", str(n), raw(n=n))
    got = [each.body for each in here.peer.events() if isinstance(each, Delivery)]
    assert got == [b"2", b"3"]
