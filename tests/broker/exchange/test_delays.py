"""Delayed messages as the rules see them, over the real engine: where they wait, and looking."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator

import pytest
from tests.broker.at_once import drop_vhost
from tests.broker.engine_fake import FakeDelays, fake_of
from tests.broker.peer import World
from tests.broker.recording import summary
from tests.broker.test_restore import recorded
from tests.engine.frames import array, longstr, properties, publish, table
from tests.engine.session_fake import Peer as EnginePeer
from tests.engine.session_fake import make_engine

from leporid.amqp.errors import NotFound, PreconditionFailed
from leporid.amqp.methods import ExchangeDeclare, ExchangeDeclareOk
from leporid.amqp.tables import Value
from leporid.broker.access.access import Access
from leporid.broker.broker import Broker
from leporid.broker.exchange.exchange import ExchangeState
from leporid.broker.exchange.types import Binding
from leporid.broker.registry import finished
from leporid.broker.stored import StoredDelays, StoredExchange
from leporid.broker.vhost import VirtualHost
from leporid.durable import Change, Drop, Put
from leporid.engine.engine import Engine
from leporid.engine.routing.route_cache import BY_MESSAGE


def delay(delay_ms: int, **more: bytes) -> bytes:
    value = b"l" + struct.pack(">q", delay_ms)
    return properties(headers=table(**{"x-delay": value}, **more), delivery_mode=2)


def moment(at_ms: int) -> bytes:
    value = b"l" + struct.pack(">q", at_ms)
    return properties(headers=table(**{"x-deliver-at": value}), delivery_mode=2)


class Here:
    """A virtual host over the real engine, whose clock is moved by hand."""

    def __init__(self) -> None:
        self.engine: Engine = make_engine()
        self.changes: list[Change] = []
        self.broker = Broker(
            self.engine,
            Access([], b"secret"),
            record=self.changes.append,
            random_bytes=bytes,
            identity={},
        )
        self.vhost: VirtualHost = self.broker.add_vhost("/")
        self.peer = EnginePeer(self.engine)
        self.peer.session.route_cache = self.source  # type: ignore[method-assign,assignment]
        self.peer.session.copies = self.copies  # type: ignore[method-assign,assignment]
        self.changes.clear()

    def source(self, name: str) -> object:
        return self.vhost.exchange(name).routes

    def copies(self, source: object, name: str, keys: list[str], raw: bytes) -> object:
        return self.vhost.routing.routing(self.vhost.exchange(name), keys, raw)

    def exchange(self, name: str, kind: str = "direct", **arguments: Value) -> ExchangeState:
        return self.vhost.create_exchange(
            name,
            kind,
            durable=True,
            auto_delete=False,
            internal=False,
            arguments={name.replace("_", "-"): value for name, value in arguments.items()},
        )

    def delayed(self, name: str, kind: str = "direct", **arguments: Value) -> ExchangeState:
        return self.exchange(name, "x-delayed-message", x_delayed_type=kind, **arguments)

    def queue(self, name: str, **arguments: Value) -> None:
        self.vhost.create_queue(
            name,
            durable=True,
            auto_delete=False,
            owner=None,
            arguments={key.replace("_", "-"): value for key, value in arguments.items()},
        )

    def bind(self, source: str, destination: str, key: str = "k", kind: str = "queue") -> None:
        assert kind in ("queue", "exchange")
        binding = Binding(source, destination, kind, key, {})  # type: ignore[arg-type]
        self.vhost.bindings.bind(binding, None)

    def send(self, exchange: str, body: str, raw: bytes, key: str = "k") -> None:
        self.peer.feed(publish(1, key, body.encode(), raw=raw, exchange=exchange))

    def sleep(self, ms: int) -> None:
        self.engine.clock.now_ms += ms
        self.engine.clock.wall_ms += ms
        self.engine.run()
        while self.engine.busy:
            self.engine.run()

    def came(self, queue: str) -> list[str]:
        engine = self.vhost.queue(queue).engine
        return [each.decode() for each in self.peer.drain(engine)]

    def count(self, exchange: str) -> int:
        return self.vhost.delays(exchange).count


@pytest.fixture
def here() -> Iterator[Here]:
    found = Here()
    yield found
    assert not found.peer.session.defects


# ------------------------------------------------------------------ routing


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout", "headers"])
def test_it_routes_as_its_type_when_the_time_has_come(here, kind):
    here.delayed("d", kind)
    here.queue("q")
    here.bind("d", "q")
    here.send("d", "later", delay(100))
    here.send("d", "now", delay(0))
    assert here.came("q") == ["now"]
    here.sleep(101)
    assert here.came("q") == ["later"]


def test_it_delays_what_comes_from_an_exchange_above(here):
    here.exchange("above", "topic")
    here.delayed("d")
    for queue in ("above.q", "d.q"):
        here.queue(queue)
    here.bind("above", "above.q", "#")
    here.bind("above", "d", "#", "exchange")
    here.bind("d", "d.q")
    here.send("above", "x", delay(100))
    here.send("above", "y", properties(delivery_mode=1))
    assert (here.came("above.q"), here.came("d.q"), here.count("d")) == (["x", "y"], ["y"], 1)
    here.sleep(101)
    assert (here.came("above.q"), here.came("d.q"), here.count("d")) == ([], ["x"], 0)


def test_it_delays_what_it_gets_as_an_alternate_exchange(here):
    here.exchange("above", alternate_exchange="d")
    here.delayed("d")
    here.queue("q")
    here.bind("d", "q")
    here.send("above", "x", delay(100))
    assert (here.came("q"), here.count("d")) == ([], 1)
    here.sleep(101)
    assert here.came("q") == ["x"]


def test_an_exchange_above_asks_for_each_message_as_long_as_it_leads_there(here):
    above = here.exchange("above", "topic")
    d = here.delayed("d")

    def asked() -> list[bool]:
        answers = [finished(here.vhost.routing.resolving(one, "k", None)) for one in (above, d)]
        return [each is BY_MESSAGE for each in answers]

    assert asked() == [False, False]
    here.bind("above", "d", "#", "exchange")
    assert asked() == [True, False]
    here.vhost.delete_exchange(d, if_unused=False)
    assert finished(here.vhost.routing.resolving(above, "k", None)) == []


def test_two_of_them_in_a_row_delay_once(here):
    here.delayed("first", "fanout")
    here.delayed("second")
    here.queue("q")
    here.bind("first", "second", "", "exchange")
    here.bind("second", "q")
    here.send("first", "x", delay(100))
    assert (here.count("first"), here.count("second")) == (1, 0)
    here.sleep(101)
    assert here.came("q") == ["x"]


def test_a_delay_too_long_is_refused_wherever_it_counts(here):
    here.exchange("above", "fanout")
    here.delayed("d")
    here.bind("above", "d", "", "exchange")
    here.send("above", "x", delay(10**12))
    ((_, fault),) = here.peer.session.faults
    assert fault.code == 406
    assert "more than ten years from now" in fault.text


def test_strict_keys_bind_publishers_and_not_what_comes_from_above(here):
    here.exchange("above", "fanout")
    here.delayed("d", "fanout", x_strict_keys=True)
    here.queue("q")
    here.bind("above", "d", "", "exchange")
    here.bind("d", "q", "")
    here.send("above", "x", delay(10), key="no plain key!")
    here.sleep(11)
    assert here.came("q") == ["x"]


@pytest.mark.parametrize("kind", ["fanout", "headers", "x-random"])
def test_keys_are_checked_before_a_message_waits(here, kind):
    """Also where exchanges are asked for every message: when it is due nobody can be told."""
    here.delayed("d", kind, x_strict_keys=True)
    here.send("d", "x", delay(10), key="no plain key!")
    here.peer.connection.open_channel(1)
    here.send("d", "x", delay(10, CC=array(longstr("neither!"))))
    here.peer.connection.open_channel(1)
    here.peer.feed(publish(1, b"\xff\xfe", b"x", raw=delay(10), exchange="d"))
    assert here.peer.faults == [(1, 406)] * 3
    assert here.count("d") == 0


def test_a_key_that_is_no_text_never_waits_on_exchanges_that_are_asked_for_every_message(here):
    """When it died, its dead letter could not be made, and the turn of the broker ended there."""
    here.delayed("d", "headers")
    here.peer.feed(publish(1, b"\xff\xfe", b"x", raw=delay(10), exchange="d"))
    assert here.peer.faults == [(1, 406)]
    assert "is not valid UTF-8" in here.peer.session.faults[0][1].text
    assert here.count("d") == 0


def test_the_keys_of_a_dead_letter_are_checked_before_it_waits(here):
    here.delayed("d", "headers", x_strict_keys=True)
    here.queue("q", x_dead_letter_exchange="d", x_dead_letter_routing_key="no!", x_message_ttl=5)
    here.send("", "x", delay(10), key="q")
    here.sleep(5)
    assert here.vhost.dead_letter_counts.dropped == {("expired", "invalid_key"): 1}
    assert here.count("d") == 0


def test_a_dead_letter_is_delayed(here):
    here.delayed("d")
    here.queue("q", x_dead_letter_exchange="d", x_dead_letter_routing_key="late", x_message_ttl=5)
    here.queue("late")
    here.bind("d", "late", "late")
    here.send("", "x", delay(100), key="q")
    here.send("", "y", properties(delivery_mode=2), key="q")
    here.sleep(5)
    assert (here.came("late"), here.count("d")) == (["y"], 1)
    here.sleep(101)
    assert here.came("late") == ["x"]


def test_a_dead_letter_that_would_wait_too_long_is_dropped(here):
    here.delayed("d")
    here.queue("q", x_dead_letter_exchange="d", x_message_ttl=5)
    here.send("", "x", delay(10**12), key="q")
    here.sleep(5)
    assert here.count("d") == 0
    assert here.vhost.dead_letter_counts.dropped == {("expired", "delay_too_long"): 1}


def test_so_is_one_that_would_wait_too_long_further_down(here):
    here.delayed("d")
    here.exchange("above", "fanout")
    here.bind("above", "d", "", "exchange")
    here.queue("q", x_dead_letter_exchange="above", x_message_ttl=5)
    here.send("", "x", delay(10**12), key="q")
    here.sleep(5)
    assert here.vhost.dead_letter_counts.dropped == {("expired", "delay_too_long"): 1}


def full(here: Here, name: str, **arguments: Value) -> None:
    """Declare a queue that has the one message that it holds, and refuses more."""
    here.queue(name, x_max_length=1, x_overflow="reject-publish", **arguments)
    here.send("", "first", properties(delivery_mode=2), key=name)


def test_what_is_dropped_for_want_of_room_is_counted_by_reason_and_logged_once(here, caplog):
    here.delayed("d")
    full(here, "q", x_max_length_bytes=5)
    here.bind("d", "q")
    for body in ("short", "too long", "also too long"):
        here.send("d", body, delay(10))
    here.sleep(11)
    found = here.vhost.statistics()
    assert (found.backlog, found.given_up) == (1, {"too_large": 2})
    assert found.delays.fired == 3
    (line,) = [each.message for each in caplog.records]
    assert line.startswith("messages that queue 'q' in vhost '/' had no room for are dropped: they")


def test_what_comes_to_no_queue_when_it_is_due_is_logged_once(here, caplog):
    here.delayed("d")
    for _ in range(2):
        here.send("d", "x", delay(10))
    here.sleep(11)
    assert here.vhost.statistics().delays.unroutable == 2
    (line,) = [each.message for each in caplog.records]
    assert line.startswith("a delayed message of exchange 'd' came to no queue when it was due")


@pytest.mark.parametrize("late", ["no exchange", "too long", ""])
def test_a_dead_letter_goes_to_the_alternate_exchange_if_nobody_takes_it(here, late):
    here.exchange("dead", "fanout", alternate_exchange="other")
    if not late:
        here.exchange("other", "fanout")
        here.queue("others")
        here.bind("other", "others")
    elif late == "too long":
        here.delayed("other", "fanout")
    full(here, "q")
    here.bind("dead", "q")
    here.queue("dying", x_dead_letter_exchange="dead", x_message_ttl=5)
    here.send("", "x", delay(10**12), key="dying")
    here.sleep(6)
    if late:
        assert here.vhost.statistics().backlog == 1
        assert here.came("q") == ["first"]
        here.sleep(100)
        assert here.came("q") == ["x"]
    else:
        assert here.came("others") == ["x"]


def test_a_retry_that_waits_goes_round_once_and_then_is_a_cycle(here):
    here.delayed("d")
    here.queue("q", x_dead_letter_exchange="d", x_message_ttl=5)
    here.bind("d", "q")
    here.bind("d", "q", "q")
    here.send("", "x", delay(100), key="q")
    here.sleep(5)
    assert here.count("d") == 1
    here.sleep(101)
    assert here.vhost.queue("q").engine.ready_count == 1
    here.sleep(5)
    assert (here.came("q"), here.count("d")) == ([], 0)


def test_an_exchange_that_draws_or_remembers_does_so_when_it_routes(here):
    here.exchange("recent", "x-recent-history", x_recent_history_length=5)
    here.queue("late")
    here.send("recent", "x", moment(here.engine.clock.wall_ms + 50))
    here.bind("recent", "late", "")
    assert here.came("late") == []
    here.sleep(51)
    assert here.came("late") == ["x"]


@pytest.mark.parametrize("exchange", ["", "amq.topic", "mine"])
def test_a_moment_counts_on_every_exchange(here, exchange):
    here.exchange("mine")
    here.queue("k")
    if exchange:
        here.bind(exchange, "k")
    here.send(exchange, "x", moment(here.engine.clock.wall_ms + 50))
    assert (here.came("k"), here.count(exchange)) == ([], 1)
    here.sleep(51)
    assert here.came("k") == ["x"]


# ------------------------------------------------------------------ looking and cancelling


def test_they_are_listed_by_their_moments(here):
    here.delayed("d")
    for number, ms in enumerate((300, 100, 200)):
        here.send("d", str(number), delay(ms))
    delays = here.vhost.delays("d")
    found = delays.list()
    contents = [content for each in found if (content := delays.content(each.id))]
    assert [each.body for each in contents] == [b"1", b"2", b"0"]
    assert [each.due_ms - each.came_ms for each in found] == [100, 200, 300]
    assert {(each.exchange, each.routing_key) for each in found} == {("d", "k")}
    assert contents[0].properties == delay(100)
    assert delays.list(limit=1) == found[:1]
    assert delays.list(after=found[0].id) == found[1:]
    assert delays.list(limit=1, after=found[0].id) == found[1:2]
    assert repr(delays) == "<DelayedMessages exchange='d' count=3>"


def test_a_list_has_no_bodies_in_memory(here):
    here.delayed("d")
    for _ in range(20):
        here.send("d", "x" * 100_000, delay(100))
    tracemalloc.start()
    found = here.vhost.delays("d").list()
    assert here.vhost.delays("d").cancel(found[0].id)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {each.body_bytes for each in found} == {100_000}
    assert peak < 100_000


def test_one_is_found_by_its_id_and_cancelled(here):
    here.delayed("d")
    here.queue("q")
    here.bind("d", "q")
    for body in ("a", "b"):
        here.send("d", body, delay(100))
    delays = here.vhost.delays("d")
    a, b = delays.list()
    assert delays.peek(a.id) == a
    assert delays.cancel(a.id)
    assert not delays.cancel(a.id)
    assert (delays.peek(a.id), delays.content(a.id), delays.count) == (None, None, 1)
    assert delays.list(after=a.id) == [b]
    here.sleep(101)
    assert here.came("q") == ["b"]
    assert delays.statistics() == (0, 1, 1, 0)
    assert here.vhost.statistics().delays == (0, 1, 1, 0)


@pytest.mark.parametrize("wrong", ["", "x", "1-", "0-0-0", "-1", "12-0", "ffff-0", "0" * 40])
def test_what_is_no_id_is_not_there(here, wrong):
    here.delayed("d")
    here.send("d", "a", delay(100))
    delays = here.vhost.delays("d")
    assert delays.peek(wrong) is None
    assert not delays.cancel(wrong)
    assert delays.count == 1


def test_a_list_begins_after_an_id_or_says_that_it_is_none(here):
    here.delayed("d")
    here.send("d", "a", delay(100))
    with pytest.raises(ValueError, match="'soon' is not the id"):
        here.vhost.delays("d").list(after="soon")


def test_an_exchange_that_never_had_any_has_none(here):
    delays = here.vhost.delays("amq.topic")
    assert (delays.count, delays.list(), delays.list(after="1-1")) == (0, [], [])
    assert delays.peek("1-1") is None
    assert not delays.cancel("1-1")
    assert delays.statistics() == (0, 0, 0, 0)
    with pytest.raises(NotFound):
        here.vhost.delays("nowhere")


def test_what_waits_goes_with_its_exchange_and_stays_counted(here):
    d = here.delayed("d")
    here.queue("q")
    here.bind("d", "q")
    here.send("d", "a", delay(10))
    here.sleep(11)
    here.send("d", "b", delay(10))
    here.vhost.delete_exchange(d, if_unused=False)
    here.delayed("d")
    here.bind("d", "q")
    here.sleep(11)
    assert here.came("q") == ["a"]
    assert here.vhost.statistics().delays == (0, 1, 0, 0)


# ------------------------------------------------------------------ records


def test_a_store_is_recorded_when_the_first_message_waits(here):
    here.delayed("d")
    here.send("d", "now", delay(0))
    assert summary(here.changes) == [(Put, StoredExchange)]
    here.send("d", "a", delay(100))
    here.send("d", "b", delay(100))
    assert here.changes[1:] == [Put(StoredDelays(1, "/", "d"))]
    here.vhost.delete_exchange(here.vhost.exchange("d"), if_unused=False)
    assert here.changes[2:] == [
        Drop(StoredDelays, (1,)),
        Drop(StoredExchange, ("/", "d")),
    ]


def test_a_transient_exchange_leaves_no_record(here):
    here.vhost.create_exchange(
        "d", "x-delayed-message", durable=False, auto_delete=False, internal=False,
        arguments={"x-delayed-type": "direct"},
    )  # fmt: skip
    here.send("d", "a", delay(100))
    assert here.count("d") == 1
    assert here.changes == []


def test_a_restart_finds_the_store_by_its_number():
    world, recording = recorded()
    vhost = world.broker.vhosts["/"]
    exchange = vhost.exchange("amq.topic")
    known = len(world.changes)
    store = fake_of(vhost.delay_stores.of(exchange), FakeDelays)
    for change in world.changes[known:]:
        recording.apply(change)
    again = World()
    again.broker.restore(recording.snapshot())
    vhost = again.broker.vhosts["/"]
    found = fake_of(vhost.delay_stores.of(vhost.exchange("amq.topic")), FakeDelays)
    assert (found.id, found.durable) == (store.id, True)
    assert again.broker.new_queue_id() > found.id


def test_a_virtual_host_that_goes_takes_them_along(here):
    here.exchange("mine")
    here.send("mine", "a", moment(here.engine.clock.wall_ms + 50))
    waiting = here.vhost.delays("mine")
    assert waiting.count == 1
    drop_vhost(here.broker, "/")
    here.sleep(100)
    assert waiting.count == 0
    assert here.vhost.delay_stores.statistics().waiting == 0


# ------------------------------------------------------------------ declaring


def test_a_redeclaration_must_name_the_same_type():
    peer = World().peer()
    topic, direct = (
        ExchangeDeclare(exchange="d", type="x-delayed-message", arguments={"x-delayed-type": kind})
        for kind in ("topic", "direct")
    )
    for _ in range(2):
        assert isinstance(peer.call(topic), ExchangeDeclareOk)
    text = peer.refused(direct)
    assert text == (
        "PRECONDITION_FAILED - inequivalent arg 'x-delayed-type' for exchange 'd' in vhost '/': "
        "received 'direct' but current is 'topic'"
    )


def test_a_type_that_is_none_is_refused():
    peer = World().peer()
    text = peer.refused(ExchangeDeclare(exchange="d", type="x-delayed-message", arguments={}))
    assert text.endswith("'x-delayed-type' must be an existing exchange type")


def test_the_faults_are_those_of_the_rules(here):
    with pytest.raises(PreconditionFailed):
        here.delayed("e", "x-delayed-message")
    assert here.vhost.find_exchange("e") is None
